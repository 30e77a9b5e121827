// The page's script: keeps its middle fresh, draws the map, opens what is asked for. The server renders all HTML;
// nothing here makes HTML of data, and nothing here asks any other host.
import { charts } from "./chart.js";
import { follow } from "./live.js";
import { FabricMap } from "./map.js";
import { openPanel } from "./panel.js";
import { actions } from "./silence.js";
import { theme } from "./theme.js";
import { times } from "./times.js";

theme(document.getElementById("theme"));
times();

const live = document.getElementById("live");
if (live) {
  const map = new FabricMap(document.getElementById("map"));
  const panel = openPanel(document.getElementById("panel"), map);
  const news = follow(live, map, panel);
  actions(() => news.refresh());
} else {
  charts(document); // a page of one thing, opened by its own address
  actions(() => location.reload());
}
