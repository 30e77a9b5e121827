"""The histograms of tick, diagnosis and delivery duration, over a real stream and a real webhook."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from tests.central.test_central import agent, live, start  # noqa: F401


async def test_ticks_and_diagnoses_are_counted_by_their_duration(start, agent):  # noqa: F811
    server = await start([agent.address])
    await live(server)
    async with asyncio.timeout(60):
        while True:
            _, _, text = await server.text("/metrics")
            values = {(s.name, s.labels.get("le", "")): s.value
                      for family in text_string_to_metric_families(text) for s in family.samples}
            if values["fabricmon_central_ticks_total", ""] > 1:
                break
            await asyncio.sleep(0.05)
    name = "fabricmon_central_tick_duration_seconds"
    assert values[f"{name}_count", ""] == values["fabricmon_central_ticks_total", ""]
    assert values[f"{name}_sum", ""] == values["fabricmon_central_tick_seconds_total", ""]
    assert values[f"{name}_bucket", "30.0"] == values[f"{name}_count", ""]
    diagnoses = values["fabricmon_central_diagnosis_duration_seconds_count", ""]
    assert 1 <= diagnoses <= values[f"{name}_count", ""]
