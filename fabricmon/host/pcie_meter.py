"""PCIe throughput of a GPU from NVML's performance monitoring (GPM): Hopper and later.

The byte counters among NVML's fields (197, 198) have 32 bits and run over in 70 ms at full speed; the difference of two
GPM samples does not (docs/methods.md#gpu-pcie-traffic).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MEBIBYTE = 2.0**20  # unit of the metrics
_UNKNOWN = (None, None)


class PcieMeter:
    """One GPU. Samples belong to the thread that calls: one thread a meter.

    handle   NVML's of the GPU
    offered  whether this GPU and driver have such numbers
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.handle = handle
        self._nvml = nvml
        self._last: Any = None
        try:
            self.offered = bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        except nvml.NVMLError:  # a driver older than GPM
            self.offered = False

    def read(self) -> tuple[float | None, float | None]:
        """Mean bytes per second sent and received since the last call; None where unknown, as at the first call."""
        if not self.offered:
            return _UNKNOWN
        nvml, former, now = self._nvml, self._last, None
        try:
            now = self._sample()
            return self._rates(former, now) if former is not None else _UNKNOWN
        except nvml.NVMLError:
            return _UNKNOWN
        finally:
            self._last = now
            if former is not None:
                nvml.nvmlGpmSampleFree(former)

    def _sample(self) -> Any:
        nvml = self._nvml
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            return nvml.nvmlGpmSampleGet(self.handle, sample)
        except nvml.NVMLError:
            nvml.nvmlGpmSampleFree(sample)
            raise

    def _rates(self, former: Any, now: Any) -> tuple[float | None, float | None]:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.sample1, asked.sample2 = nvml.NVML_GPM_METRICS_GET_VERSION, former, now
        wanted = (nvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, nvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC)
        asked.numMetrics = len(wanted)
        for place, metric in enumerate(wanted):
            asked.metrics[place].metricId = metric
        nvml.nvmlGpmMetricsGet(asked)
        sent, received = _known(asked.metrics[: len(wanted)])
        return sent, received


def _known(metrics: Sequence[Any]) -> list[float | None]:
    return [each.value * _MEBIBYTE if each.nvmlReturn == 0 and each.value >= 0 else None for each in metrics]
