// History of a component, one small chart per counter. Missing readings are a shaded gap, never a line: two readings are
// joined only if no reading is missing between them.
import { get } from "./live.js";
import { clock, span } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";
const HIGH = 64;
const PATIENT = 2.5; // periods between two readings after which something is missing

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function element(name, className, ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function readable(value, unit) {
  if (value === null || value === undefined) return "unknown";
  if (unit === "dBm") return `${value.toFixed(2)} dBm`;
  if (unit === "ratio") return `${(value * 100).toFixed(value < 0.1 && value > 0 ? 1 : 0)} %`;
  const [size, letter] = PREFIXES.find(([least]) => Math.abs(value) >= least) || [1, ""];
  const number = value / size;
  const digits = value === 0 ? "0" : Math.abs(number) >= 100 || Number.isInteger(number) ? number.toFixed(0) : number.toPrecision(3);
  const short = unit.replace(/^bytes/, "B").replace(/^seconds/, "s").replace(/^bits/, "b").replace(/^celsius/, "°C").replace(/^watts/, "W");
  return short.startsWith("/") || !short ? `${digits}${letter}${short}` : `${digits} ${letter}${short}`;
}

// Runs of readings without anything missing between them, and the spaces in between.
function runs(points, patience, from, to) {
  const found = [];
  const gaps = [];
  let run = [];
  let last = from;
  for (const [at, value] of points) {
    if (value === null) continue;
    if (at - last > patience) {
      if (run.length) found.push(run);
      run = [];
      gaps.push([last, at]);
    }
    run.push([at, value]);
    last = at;
  }
  if (run.length) found.push(run);
  if (to - last > patience) gaps.push([last, to]);
  return { found, gaps };
}

function draw(series, from, to, step) {
  const wide = 600;
  const known = series.points.filter(([, value]) => value !== null);
  const top = Math.max(series.top ?? 0, ...known.map(([, value]) => value)) || 1;
  const low = Math.min(0, ...known.map(([, value]) => value));
  const x = (at) => ((at - from) / (to - from || 1)) * wide;
  const y = (value) => HIGH - 2 - ((value - low) / (top - low || 1)) * (HIGH - 6);
  const { found, gaps } = runs(series.points, PATIENT * Math.max(step, series.period), from, to);
  const plot = svg("svg", { viewBox: `0 0 ${wide} ${HIGH}`, preserveAspectRatio: "none", class: "plot", "aria-hidden": "true" });
  for (const [begin, end] of gaps) plot.append(svg("rect", { x: x(begin), y: 0, width: Math.max(0, x(end) - x(begin)), height: HIGH, class: "gap" }));
  plot.append(svg("line", { x1: 0, x2: wide, y1: y(0), y2: y(0), class: "axis" }));
  for (const run of found) {
    const path = run.map(([at, value], index) => `${index ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    if (run.length > 1) {
      plot.append(svg("path", { d: `${path}L${x(run.at(-1)[0]).toFixed(1)} ${y(0)}L${x(run[0][0]).toFixed(1)} ${y(0)}Z`, class: "under" }));
      plot.append(svg("path", { d: path, class: "line" }));
    } else {
      plot.append(svg("line", { x1: x(run[0][0]) - 1, x2: x(run[0][0]), y1: y(run[0][1]), y2: y(run[0][1]), class: "dot" }));
    }
  }
  const last = known.at(-1);
  const unit = series.unit;
  const reading = element("span", "reading", last ? readable(last[1], unit) : "unknown");
  const most = known.length ? Math.max(...known.map(([, value]) => value)) : null;
  const head = element("figcaption", "", element("b", "", series.title), reading, element("span", "most", `max ${readable(most, unit)} (${span((to - from) * 1000)})`));
  head.title = series.help;
  const needle = element("i", "needle");
  needle.hidden = true;
  const box = element("div", "box", plot, needle);
  const figure = element("figure", "chart", head, box);
  box.setAttribute("role", "img");
  const missing = gaps.reduce((sum, [begin, end]) => sum + end - begin, 0);
  box.setAttribute("aria-label", `${series.title}: now ${last ? readable(last[1], unit) : "unknown"}, max ${readable(most, unit)}${missing ? `, unknown for ${span(missing * 1000)}` : ""}`);
  box.addEventListener("pointermove", (event) => {
    const bounds = box.getBoundingClientRect();
    const at = from + ((event.clientX - bounds.left) / bounds.width) * (to - from);
    const inGap = gaps.some(([begin, end]) => at > begin && at < end);
    const near = inGap ? null : known.reduce((best, point) => (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), null);
    reading.textContent = `${clock((near ? near[0] : at) * 1000)}: ${near ? readable(near[1], unit) : "unknown"}`;
    needle.hidden = false;
    needle.style.left = `${event.clientX - bounds.left}px`;
  });
  box.addEventListener("pointerleave", () => {
    reading.textContent = last ? readable(last[1], unit) : "unknown";
    needle.hidden = true;
  });
  return figure;
}

export async function charts(root) {
  for (const place of root.querySelectorAll("[data-history]")) {
    let answer;
    try {
      answer = await (await get(place.dataset.history)).json();
    } catch {
      if (!place.querySelector("figure")) place.textContent = "The server does not respond.";
      continue;
    }
    if (!place.isConnected) continue;
    const { from, to, step, series = [], quiet = [] } = answer;
    const parts = series.map((one) => draw(one, one.from, to, one.step || step));
    const first = `from ${clock(from * 1000)} to ${clock(to * 1000)}`;
    const notes = [element("p", "note", series.length ? `${first}; shaded: unknown` : answer.error || "No history yet; recording while this is open.")];
    if (quiet.length) {
      const names = element("p", "names", ...quiet.flatMap((name) => [element("code", "", name), " "]));
      const folded = element("details", "", element("summary", "", `${quiet.length} counters unchanged`), names);
      folded.open = Boolean(place.querySelector("details[open]"));
      notes.push(folded);
    }
    place.replaceChildren(...parts, ...notes);
  }
}
