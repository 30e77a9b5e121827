"""What a program does to a GPU, by the CUDA driver's interface: copies over PCIe, and a store to a bad address.

    python -m tests.real_gpu.cuda copy to_gpu 10737418240
    python -m tests.real_gpu.cuda crash
"""

from __future__ import annotations

import ctypes
import sys
import time

_BLOCK = 1 << 28
_BAD_STORE = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry crash() {
    .reg .u64 %at;
    mov.u64 %at, 0x200000000000;
    st.global.u64 [%at], %at;
    ret;
}
"""


class CudaError(RuntimeError):
    """A call that failed, with CUDA's number."""


class Gpu:
    """GPU 0, with a context of this process."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise CudaError(f"{name}: {code}")

    def copy(self, to_gpu: bool, size: int) -> float:
        """Copy `size` bytes, a multiple of 256 MiB, from or to pinned memory; returns the seconds it took."""
        host, memory = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(_BLOCK))
        self._call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(_BLOCK))
        begin = time.monotonic()
        for _ in range(size // _BLOCK):
            if to_gpu:
                self._call("cuMemcpyHtoD_v2", memory, host, ctypes.c_size_t(_BLOCK))
            else:
                self._call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(_BLOCK))
        return time.monotonic() - begin

    def crash(self) -> None:
        """Store to an address that no memory has: Xid 31, CudaError 700."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), _BAD_STORE)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, b"crash")
        self._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self._call("cuCtxSynchronize")


if __name__ == "__main__":
    if sys.argv[1] == "copy":
        print(Gpu().copy(sys.argv[2] == "to_gpu", int(sys.argv[3])))
    else:
        Gpu().crash()
