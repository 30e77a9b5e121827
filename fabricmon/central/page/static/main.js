// Entry point: keeps the main part current, draws the map, opens details. The server renders all HTML; no script makes
// HTML from data or contacts another host.
import { charts } from "./chart.js";
import { follow } from "./live.js";
import { FabricMap } from "./map.js";
import { news } from "./news.js";
import { openPanel } from "./panel.js";
import { selecting } from "./select.js";
import { actions } from "./silence.js";
import { theme } from "./theme.js";
import { times } from "./times.js";

theme(document.getElementById("theme"));
times();

const live = document.getElementById("live");
if (live) {
  const map = new FabricMap(document.getElementById("map"));
  const panel = openPanel(document.getElementById("panel"), map);
  const rows = selecting(live);
  const page = follow(live, map, panel, rows, news(live));
  actions(() => page.refresh(), rows);
} else {
  charts(document); // a detail page, opened by its own address
  actions(() => location.reload());
}
