"""GPUs of a recorded machine: from the archive, or from a source whose answers are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fabricmon.host.archive import FieldAnswer
from fabricmon.host.archive.archived import Archived
from fabricmon.host.protocol import Unsupported
from fabricmon.host.protocol.gpus import NOT_FOUND, Fields, Gpu, GpuEvent, GpuFabric, GpuPcie, Gpus, NvLink


class ArchivedGpus(Archived[Gpus]):
    def gpus(self) -> list[Gpu]:
        if self._source is not None:
            self.archive.gpus = self.archive.ask("gpus ", self._source.gpus)
        return self.archive.answer("gpus ", self.archive.gpus).copy()

    def nvlinks(self, gpu: int) -> list[NvLink]:
        return self._ask("nvlinks", gpu, lambda source: source.nvlinks(gpu)).copy()

    def fields(self, gpu: int, wanted: Sequence[tuple[int, int]]) -> Fields:
        source, archive = self._source, self.archive
        if source is not None:
            found = archive.ask(f"gpu_fields {gpu}", lambda: source.fields(gpu, wanted))
            kept = archive.gpu_fields.setdefault(str(gpu), {})
            for (field, scope), value, code in zip(wanted, found.values, found.codes, strict=True):
                kept[f"{field}/{scope}"] = FieldAnswer(None if math.isnan(value) else value, code)
            return found
        known = archive.answer(f"gpu_fields {gpu}", archive.gpu_fields.get(str(gpu)))
        lacking = FieldAnswer(None, NOT_FOUND)
        answers = [known.get(f"{field}/{scope}", lacking) for field, scope in wanted]
        return Fields([math.nan if a.value is None else a.value for a in answers], [a.code for a in answers])

    def fabric(self, gpu: int) -> GpuFabric:
        return self._ask("gpu_fabrics", gpu, lambda source: source.fabric(gpu))

    def pcie(self, gpu: int) -> GpuPcie:
        return self._ask("gpu_pcie", gpu, lambda source: source.pcie(gpu))

    def watch(self, notify: Callable[[GpuEvent], None]) -> Callable[[], None]:
        raise Unsupported("NVML events", 0, "a recorded machine has no events")
