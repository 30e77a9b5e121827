"""GPUs through NVML, by nvidia-ml-py, which is imported only where the library is installed.

Every call may block in the driver; each GPU has its own calling thread. Only the initialisation holds a lock, so a GPU
that hangs does not delay others.
"""

from __future__ import annotations

import ctypes
import errno
import math
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from fabricmon.host.pcie_meter import PcieMeter
from fabricmon.host.protocol import HostError, Unsupported
from fabricmon.host.protocol.gpus import Fields, Gpu, GpuEvent, GpuFabric, GpuPcie, NvLink, pci_address

_T = TypeVar("_T")
LIBRARY = "libnvidia-ml.so.1"
MOST_GPUS = 64
MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS
_WAIT_MS = 1000  # of one wait for events: how long the thread may outlive its stop
_AGAIN = 30.0  # seconds between two attempts to register for events while the driver is not loaded or fails
_INVALID_ARGUMENT, _NOT_SUPPORTED, _TIMEOUT = 2, 3, 10  # nvmlReturn_t
_ABSENT = frozenset({_NOT_SUPPORTED, 9, 12, 13})  # not supported, no driver loaded, no library, no such function
_GONE = frozenset({6, 15, 16})  # not found, fell off the bus, needs a reset
_ANEW = frozenset({1, 9, 18})  # not initialised, no driver loaded, driver replaced under the library
_COMPLETED = 3
_ASK = struct.Struct("=II32x")  # nvmlFieldValue_t: field, scope ...
_ANSWER = struct.Struct("=8x16xIIQ")  # ... timestamp and latency, type, code, value


class Nvml:
    """Gpus of this machine."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._lib: Any = None
        self._open = False
        self._handles: dict[int, Any] = {}
        self._meters: dict[int, PcieMeter] = {}  # each is used by its GPU's thread only

    def gpus(self) -> list[Gpu]:
        nvml = self._ready()
        count = min(self._call("nvmlDeviceGetCount", lambda: nvml.nvmlDeviceGetCount()), MOST_GPUS)
        driver = self._maybe(lambda: nvml.nvmlSystemGetDriverVersion()) or ""
        return [self._gpu(index, _text(driver)) for index in range(count)]

    def nvlinks(self, gpu: int) -> list[NvLink]:
        nvml, handle = self._ready(), self._handle(gpu)
        found = []
        for link in range(MOST_LINKS):
            try:
                state: int | None = nvml.nvmlDeviceGetNvLinkState(handle, link)
            except nvml.NVMLError as error:
                if error.value in (_NOT_SUPPORTED, _INVALID_ARGUMENT):
                    break  # the GPU has no further links
                if error.value in _GONE:
                    raise self._error(f"nvmlDeviceGetNvLinkState gpu{gpu}", error) from None
                state = None
            remote = self._maybe(partial(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link))
            pci = self._maybe(partial(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))
            found.append(NvLink(link, state, remote, pci_address(_text(pci.busId)) if pci else ""))
        return found

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        nvml, handle = self._ready(), self._handle(gpu)
        if not wanted:
            return Fields([], [])
        # packed and unpacked here: the bindings' structures take five times the processor time
        asked = b"".join([_ASK.pack(*each) for each in wanted])
        answers = ctypes.create_string_buffer(asked, len(asked))
        code = self._lib.nvmlDeviceGetFieldValues(handle, len(wanted), answers)
        if code:
            raise self._error(f"nvmlDeviceGetFieldValues gpu{gpu}", nvml.NVMLError(code))
        values, codes = [], []
        for kind, code, bits in _ANSWER.iter_unpack(answers):
            codes.append(code)
            values.append(_number(kind, bits) if code == 0 else math.nan)
        return Fields(values, codes)

    def fabric(self, gpu: int) -> GpuFabric:
        nvml, handle = self._ready(), self._handle(gpu)
        question = f"nvmlDeviceGetGpuFabricInfoV gpu{gpu}"
        newest, older = nvml.c_nvmlGpuFabricInfo_v3_t, nvml.c_nvmlGpuFabricInfo_v2_t
        try:
            info = self._fabric(handle, newest())
        except nvml.NVMLError:  # a driver with the previous version only: "argument" or "version"
            info = self._call(question, lambda: self._fabric(handle, older()))
        cluster = bytes(info.clusterUuid).hex()
        completed = info.state == _COMPLETED
        return GpuFabric(
            state=info.state,
            status=info.status if completed else None,
            cluster=str(UUID(cluster)) if set(cluster) != {"0"} else "",
            clique=info.cliqueId if completed else None,
            health=info.healthMask,
            summary=getattr(info, "healthSummary", None),
        )

    def pcie(self, gpu: int) -> GpuPcie:
        nvml, handle = self._ready(), self._handle(gpu)
        meter = self._meter(gpu, handle)
        return GpuPcie(
            self._maybe(lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
            self._maybe(lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
            self._maybe(lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
            self._maybe(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
            meter.offered,
            *meter.read(),
        )

    def _meter(self, gpu: int, handle: Any) -> PcieMeter:
        meter = self._meters.get(gpu)
        if meter is None or meter.handle is not handle:  # the driver was loaded again
            meter = self._meters[gpu] = PcieMeter(self._nvml, handle)
        return meter

    def watch(self, notify: Callable[[GpuEvent], None]) -> Callable[[], None]:
        self._load()
        stopped = threading.Event()
        threading.Thread(target=self._listen, args=(notify, stopped), name="nvml events", daemon=True).start()
        return stopped.set

    def close(self) -> None:
        """Do nothing: threads may still be in calls."""

    # --- the library

    def _load(self) -> None:
        """Load the library, then the bindings, whose import is expensive. Unsupported without the library."""
        if self._nvml is not None:
            return
        try:
            self._lib = ctypes.CDLL(self._library)
        except OSError as error:
            raise Unsupported("NVML", 0, f"no NVIDIA driver library: {error}") from None
        import pynvml

        self._nvml = pynvml

    def _ready(self) -> Any:
        """The bindings, initialised; again after the driver was reloaded."""
        self._load()
        if not self._open:
            with self._lock:
                if not self._open:
                    self._call("nvmlInit", self._nvml.nvmlInit)
                    self._handles.clear()
                    self._open = True
        return self._nvml

    def _handle(self, gpu: int) -> Any:
        handle = self._handles.get(gpu)
        if handle is None:
            handle = self._call(f"gpu{gpu}", lambda: self._nvml.nvmlDeviceGetHandleByIndex(gpu))
            self._handles[gpu] = handle
        return handle

    def _call(self, question: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise self._error(question, error) from None

    def _error(self, question: str, error: Any) -> HostError:
        if error.value in _ANEW:
            self._open = False
        if error.value in _GONE | _ANEW:
            self._handles.clear()
        kind = Unsupported if error.value in _ABSENT else HostError
        return kind(question, errno.ENODEV if error.value in _GONE else 0, f"{error} (NVML {error.value})")

    def _maybe(self, ask: Callable[[], Any]) -> Any:
        """The answer; None where this GPU or driver has none."""
        try:
            return ask()
        except self._nvml.NVMLError:
            return None

    def _gpu(self, index: int, driver: str) -> Gpu:
        nvml = self._nvml
        try:
            handle = self._handle(index)
            uuid = _text(self._call(f"nvmlDeviceGetUUID gpu{index}", lambda: nvml.nvmlDeviceGetUUID(handle)))
        except HostError as error:
            return Gpu(index, driver=driver, lost=error.text)
        pci = self._maybe(lambda: nvml.nvmlDeviceGetPciInfo(handle))
        place = self._place(handle)
        return Gpu(
            index, uuid, pci_address(_text(pci.busId)) if pci else "",
            _text(self._maybe(lambda: nvml.nvmlDeviceGetName(handle)) or ""), driver, **place,
        )  # fmt: skip

    def _place(self, handle: Any) -> dict[str, str]:
        """The GPU's position in its rack, as keywords of Gpu; empty without one."""
        nvml = self._nvml
        info = nvml.c_nvmlPlatformInfo_v2_t()
        if self._maybe(lambda: nvml.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(info))) is None:
            return {}
        chassis = _bytes(info, "chassisSerialNumber").partition(b"\0")[0].decode("ascii", "replace").strip()
        module, slot, tray = (str(_bytes(info, name)[0]) for name in ("moduleId", "slotNumber", "trayIndex"))
        return {"module": module, "chassis": chassis, "slot": slot, "tray": tray} if chassis else {"module": module}

    def _fabric(self, handle: Any, info: Any) -> Any:
        self._nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        return info

    # --- events

    def _listen(self, notify: Callable[[GpuEvent], None], stopped: threading.Event) -> None:
        """Wait for events until stopped; again every _AGAIN seconds while the driver fails."""
        while not stopped.is_set():
            try:
                self._wait(notify, stopped)
            except (HostError, self._nvml.NVMLError):
                stopped.wait(_AGAIN)

    def _wait(self, notify: Callable[[GpuEvent], None], stopped: threading.Event) -> None:
        nvml = self._ready()
        handles = {}
        for gpu in self.gpus():
            if not gpu.lost:
                handle = self._handle(gpu.index)
                handles[_address(handle)] = (gpu, handle)
        events = nvml.nvmlEventSetCreate()
        try:
            registered = 0
            for _, handle in handles.values():
                xid = nvml.nvmlEventTypeXidCriticalError
                offered = self._maybe(partial(nvml.nvmlDeviceGetSupportedEventTypes, handle))
                if offered is not None and offered & xid:
                    nvml.nvmlDeviceRegisterEvents(handle, xid, events)
                    registered += 1
            if not registered:
                stopped.wait(_AGAIN)
                return
            while not stopped.is_set():
                try:
                    event = nvml.nvmlEventSetWait_v2(events, _WAIT_MS)
                except nvml.NVMLError as error:
                    if error.value == _TIMEOUT:
                        continue
                    raise
                if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                    known = handles.get(_address(event.device))
                    gpu = known[0] if known else Gpu(-1)
                    notify(GpuEvent(gpu.index, gpu.pci, int(event.eventData)))
        finally:
            self._maybe(lambda: nvml.nvmlEventSetFree(events))


def _number(kind: int, bits: int) -> float:
    """A value from the 64 bits of nvmlValue_t, by nvmlValueType_t; NaN for an unknown type."""
    if kind in (2, 3):  # unsigned long, unsigned long long
        return float(bits)
    if kind == 0:
        return float(struct.unpack("=d", struct.pack("=Q", bits))[0])
    width = {1: 32, 4: 64, 5: 32, 6: 16}.get(kind)
    if width is None:
        return math.nan
    value = bits & (1 << width) - 1
    return float(value - (1 << width) if kind in (4, 5) and value >> (width - 1) else value)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _bytes(structure: Any, field: str) -> bytes:
    """The bytes of a field, which the bindings would decode as text."""
    at = getattr(type(structure), field)
    return ctypes.string_at(ctypes.addressof(structure) + at.offset, at.size)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
