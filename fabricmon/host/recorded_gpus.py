"""GPUs in a recording: kept while another host answers, and answered again from the archive."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from fabricmon.host.archive import Archive, FieldAnswer, Trouble
from fabricmon.host.gpus import NOT_FOUND, Fields, Gpu, GpuEvent, GpuFabric, GpuPcie, Gpus, NvLink
from fabricmon.host.protocol import HostError, Unsupported

_T = TypeVar("_T")


class RecordedGpus:
    """Answers what was asked when the archive was made, the same way each time."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def gpus(self) -> list[Gpu]:
        return self._told("gpus", "", {"": self._archive.gpus} if self._archive.gpus is not None else {}).copy()

    def nvlinks(self, gpu: int) -> list[NvLink]:
        return self._told("nvlinks", str(gpu), self._archive.nvlinks).copy()

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        known = self._told("gpu_fields", str(gpu), self._archive.gpu_fields)
        lacking = FieldAnswer(None, NOT_FOUND)
        answers = [known.get(f"{field}/{scope}", lacking) for field, scope in wanted]
        return Fields([math.nan if a.value is None else a.value for a in answers], [a.code for a in answers])

    def fabric(self, gpu: int) -> GpuFabric:
        return self._told("gpu_fabrics", str(gpu), self._archive.gpu_fabrics)

    def pcie(self, gpu: int) -> GpuPcie:
        return self._told("gpu_pcie", str(gpu), self._archive.gpu_pcie)

    def watch(self, tell: Callable[[GpuEvent], None]) -> Callable[[], None]:
        raise Unsupported("NVML events", 0, "a recorded machine has no events")

    def close(self) -> None:
        """Nothing is open."""

    def _told(self, field: str, key: str, answers: dict[str, _T]) -> _T:
        if key in answers:
            return answers[key]
        question = f"{field} {key}"
        trouble = self._archive.troubles.get(question)
        if trouble is None:
            raise Unsupported(question, 0, "not in the recording")
        raise (Unsupported if trouble.unsupported else HostError)(question, trouble.errno, trouble.error)


class RecordingGpus:
    """In front of another host's."""

    def __init__(self, gpus: Gpus, archive: Archive) -> None:
        self._from, self._archive = gpus, archive

    def gpus(self) -> list[Gpu]:
        self._archive.gpus = self._ask("gpus", "", self._from.gpus)
        return self._archive.gpus

    def nvlinks(self, gpu: int) -> list[NvLink]:
        found = self._ask("nvlinks", str(gpu), lambda: self._from.nvlinks(gpu))
        self._archive.nvlinks[str(gpu)] = found
        return found

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        found = self._ask("gpu_fields", str(gpu), lambda: self._from.fields(gpu, wanted))
        kept = self._archive.gpu_fields.setdefault(str(gpu), {})
        for (field, scope), value, code in zip(wanted, found.values, found.codes, strict=True):
            kept[f"{field}/{scope}"] = FieldAnswer(None if math.isnan(value) else value, code)
        return found

    def fabric(self, gpu: int) -> GpuFabric:
        found = self._ask("gpu_fabrics", str(gpu), lambda: self._from.fabric(gpu))
        self._archive.gpu_fabrics[str(gpu)] = found
        return found

    def pcie(self, gpu: int) -> GpuPcie:
        found = self._ask("gpu_pcie", str(gpu), lambda: self._from.pcie(gpu))
        self._archive.gpu_pcie[str(gpu)] = found
        return found

    def watch(self, tell: Callable[[GpuEvent], None]) -> Callable[[], None]:
        raise Unsupported("NVML events", 0, "a recording has no events")

    def close(self) -> None:
        self._from.close()

    def _ask(self, field: str, key: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except HostError as error:
            trouble = Trouble(error.errno, error.text, isinstance(error, Unsupported))
            self._archive.troubles[f"{field} {key}"] = trouble
            raise
