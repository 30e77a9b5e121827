// History of components, one chart per counter, drawn by uPlot. Missing readings are a shaded gap, never a line: two
// readings are joined only if no reading is missing between them.
import { get } from "./live.js";
import { clock, span } from "./times.js";
import { known, scaleOf, shown } from "./units.js";

const HIGH = 132;
const PATIENT = 2.5; // periods between two readings after which something is missing

function element(name, className, ...children) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...children);
  return made;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let library = null;

// uPlot and its style, loaded when the first chart is drawn.
function load() {
  library ??= (async () => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "static/vendor/uPlot.min.css" });
    document.head.append(style);
    return (await import("./vendor/uPlot.esm.js")).default;
  })();
  return library;
}

// Columns of a series: times, values with null where something is missing, and the gaps.
function columns(series, from, to, step, scale) {
  const times = [];
  const values = [];
  const gaps = [];
  const patience = PATIENT * Math.max(step, series.period);
  let last = from;
  for (const [at, value] of series.points.filter(([, value]) => value !== null)) {
    if (at - last > patience) {
      gaps.push([last, at]);
      times.push((last + at) / 2);
      values.push(null);
    }
    times.push(at);
    values.push(scale.of(value));
    last = at;
  }
  if (to - last > patience) gaps.push([last, to]);
  return { data: [times, values], gaps };
}

class Chart {
  constructor(Plot, series, answer) {
    this.reading = element("span", "reading");
    this.most = element("span", "most");
    this.box = element("div", "box");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "slider");
    this.box.setAttribute("aria-label", series.title);
    const head = element("figcaption", "", element("b", "", series.title), this.reading, this.most);
    head.title = series.help;
    this.figure = element("figure", "chart", head, this.box);
    this.Plot = Plot;
    this.take(series, answer);
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.point(this.data[0].length - 1));
    this.box.addEventListener("blur", () => this.point(null));
  }

  // New readings of the same series.
  take(series, { to, step, marks = [] }) {
    const log = series.scale === "log";
    this.scale = scaleOf(series);
    this.series = series;
    this.from = series.from;
    this.to = to;
    this.marks = marks.filter((mark) => mark.from < to && (mark.to ?? to) > series.from);
    this.limits = series.limits.map(({ text, value }) => ({ text, value: this.scale.of(value) }));
    const { data, gaps } = columns(series, series.from, to, series.step || step, this.scale);
    this.data = data;
    this.gaps = gaps;
    const values = data[1].filter((value) => value !== null);
    const top = values.length ? values.reduce((most, value) => Math.max(most, value)) : null;
    const missing = gaps.reduce((sum, [begin, end]) => sum + end - begin, 0);
    const unknown = missing ? `; unknown for ${span(missing * 1000)}` : "";
    const limits = this.limits.map((limit) => `; ${limit.text}: ${shown(limit.value, this.scale)}`).join("");
    this.most.textContent = `max ${shown(top, this.scale)} (${span((to - series.from) * 1000)})${limits}${unknown}`;
    if (this.plot && this.log === log && this.unit === this.scale.unit) this.plot.setData(data);
    else {
      this.plot?.destroy();
      this.plot = null;
      this.log = log;
      this.unit = this.scale.unit;
    }
    this.point(this.plot?.cursor.idx ?? null);
  }

  // The chart has its place on the page: draw it in its width.
  draw() {
    const width = Math.floor(this.box.clientWidth);
    if (!width) return;
    if (!this.plot) this.plot = new this.Plot(this.options(width), this.data, this.box);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: HIGH });
  }

  range(low, high) {
    const fixed = this.limits.map((limit) => limit.value).filter((value) => this.near(value, low, high));
    const least = Math.min(low ?? 0, ...fixed);
    const most = Math.max(high ?? 0, this.scale.of(this.series.top ?? -Infinity), ...fixed);
    if (this.log) return [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most) + 0.01)];
    const signed = this.series.unit === "dBm" || this.series.unit === "celsius";
    const floor = signed ? least : Math.min(0, least);
    const pad = (most - floor || 1) * 0.06;
    return [signed || floor < 0 ? floor - pad : 0, most + pad];
  }

  // A limit far from all readings would leave no room for them.
  near(value, low, high) {
    if (low === null || low === undefined) return true;
    if (this.log) return value > 0;
    const spread = Math.max(high - low, Math.abs(high) / 4, 1e-9);
    return value > low - 3 * spread && value < high + 3 * spread;
  }

  options(width) {
    const axis = { stroke: () => colour("--faint"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
    return {
      width,
      height: HIGH,
      padding: [16, 20, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "readings" }, drag: { x: false, y: false }, points: { size: 7 }, y: false },
      scales: {
        x: { range: () => [this.from, this.to] },
        y: { distr: this.log ? 3 : 1, range: (plot, low, high) => this.range(low, high) },
      },
      axes: [
        { ...axis, size: 22, gap: 3, space: 62, values: (plot, times) => times.map((at) => clock(at * 1000).slice(0, 5)) },
        { ...axis, size: 50, gap: 4, space: 26, values: (plot, values) => values.map((value) => (value === null ? "" : known(value, this.scale))) },
      ],
      series: [{}, { stroke: () => colour("--info"), width: 1.5, fill: this.log ? undefined : () => `${colour("--info")}22`, points: { show: this.data[0].length < 3 } }],
      hooks: {
        drawClear: [(plot) => this.under(plot)],
        draw: [(plot) => this.over(plot)],
        setCursor: [(plot) => this.read(plot.cursor.left >= 0 ? plot.cursor.idx : null, plot)],
      },
    };
  }

  // Gaps, and the time of incidents.
  under(plot) {
    const { left, top, width, height } = plot.bbox;
    const x = (at) => Math.min(left + width, Math.max(left, plot.valToPos(at, "x", true)));
    const fill = (begin, end, paint, share) => {
      plot.ctx.globalAlpha = share;
      plot.ctx.fillStyle = paint;
      plot.ctx.fillRect(x(begin), top, x(end) - x(begin), height);
    };
    plot.ctx.save();
    for (const [begin, end] of this.gaps) fill(begin, end, colour("--stale-mark"), 0.2);
    for (const mark of this.marks) fill(mark.from, mark.to ?? this.to, colour(mark.severity === "critical" ? "--critical" : "--warning-mark"), 0.1);
    plot.ctx.restore();
  }

  // The unit of the axis; lines at begin and end of incidents, and at limits.
  over(plot) {
    const { left, top, width, height } = plot.bbox;
    const line = (x0, y0, x1, y1, paint, dash) => {
      plot.ctx.strokeStyle = paint;
      plot.ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
      plot.ctx.beginPath();
      plot.ctx.moveTo(x0, y0);
      plot.ctx.lineTo(x1, y1);
      plot.ctx.stroke();
    };
    plot.ctx.save();
    plot.ctx.lineWidth = devicePixelRatio;
    plot.ctx.font = `${10 * devicePixelRatio}px sans-serif`;
    plot.ctx.textAlign = "left";
    plot.ctx.fillStyle = colour("--faint");
    plot.ctx.fillText(this.scale.unit, 6 * devicePixelRatio, 11 * devicePixelRatio);
    for (const mark of this.marks) {
      for (const [at, dash] of [[mark.from, []], [mark.to, [2, 3]]]) {
        if (at === null || at < this.from || at > this.to) continue;
        const x = plot.valToPos(at, "x", true);
        line(x, top, x, top + height, colour(mark.severity === "critical" ? "--critical" : "--warning-mark"), dash);
      }
    }
    let above = Infinity; // where the last label is: two in one place cannot be read
    for (const limit of [...this.limits].sort((one, other) => one.value - other.value)) {
      const y = plot.valToPos(limit.value, "y", true);
      if (!(y >= top && y <= top + height)) continue;
      line(left, y, left + width, y, colour("--critical"), [5, 4]);
      if (above - y < 11 * devicePixelRatio) continue;
      above = y;
      plot.ctx.fillStyle = colour("--critical");
      plot.ctx.textAlign = "right";
      const words = `${limit.text}: ${shown(limit.value, this.scale)}`;
      plot.ctx.fillText(words, left + width - 3 * devicePixelRatio, y - 3 * devicePixelRatio);
    }
    plot.ctx.restore();
  }

  // The reading at a place of the data; null: the latest.
  read(index, plot = this.plot) {
    const [times, values] = this.data;
    const at = index ?? times.length - 1;
    const value = at >= 0 ? values[at] : null;
    const when = index === null || index === undefined ? "" : `${clock(times[at] * 1000)}: `;
    const words = `${when}${shown(value, this.scale)}`;
    this.reading.textContent = words;
    this.box.setAttribute("aria-valuemin", 0);
    this.box.setAttribute("aria-valuemax", Math.max(0, times.length - 1));
    this.box.setAttribute("aria-valuenow", Math.max(0, at));
    this.box.setAttribute("aria-valuetext", at >= 0 ? `${clock(times[at] * 1000)}: ${shown(value, this.scale)}; ${this.most.textContent}` : "unknown");
    return plot;
  }

  // Put the cursor on a place of the data.
  point(index) {
    this.index = index;
    if (!this.plot) return this.read(index);
    const left = index === null ? -10 : this.plot.valToPos(this.data[0][index], "x");
    this.plot.setCursor({ left, top: index === null ? -10 : 10 });
    return this.read(index);
  }

  key(event) {
    const last = this.data[0].length - 1;
    const at = this.index ?? last;
    const step = event.shiftKey ? 10 : 1;
    const wanted = { ArrowLeft: at - step, ArrowDown: at - step, ArrowRight: at + step, ArrowUp: at + step, Home: 0, End: last }[event.key];
    if (wanted === undefined || last < 0) return;
    event.preventDefault();
    this.point(Math.min(last, Math.max(0, wanted)));
  }
}

const drawn = new WeakMap(); // place -> its charts by name
const days = new WeakSet(); // places that show 24 hours

const address = (place) => `${place.dataset.history}${days.has(place) ? "&span=day" : ""}`;

export async function charts(root) {
  for (const place of root.querySelectorAll("[data-history]")) await refresh(place);
}

async function refresh(place) {
  let answer, Plot;
  const wanted = address(place);
  try {
    [answer, Plot] = await Promise.all([get(wanted).then((found) => found.json()), load()]);
  } catch {
    if (!place.querySelector("figure")) place.textContent = "The server does not respond.";
    return;
  }
  if (place.isConnected && wanted === address(place)) show(place, answer, Plot);
}

function show(place, answer, Plot) {
  const most = Number(place.dataset.most) || Infinity;
  const series = (answer.series || []).slice(0, most);
  const before = drawn.get(place) || new Map();
  const now = new Map();
  for (const one of series) {
    const chart = before.get(one.name);
    if (chart) chart.take(one, answer);
    now.set(one.name, chart || new Chart(Plot, one, answer));
  }
  for (const [name, chart] of before) if (!now.has(name)) chart.figure.remove();
  drawn.set(place, now);
  const figures = [...now.values()].map((chart) => chart.figure);
  const placed = figures.every((figure, index) => place.children[index] === figure);
  if (!placed) place.replaceChildren(...figures);
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.days !== undefined;
  for (const note of place.querySelectorAll(":scope > :not(figure)")) note.remove();
  place.append(...notes(place, answer, series.length));
  if (focused) place.querySelector("[data-days]").focus();
  for (const chart of now.values()) chart.draw();
}

function notes(place, { from, to, quiet = [], error }, number) {
  const begin = days.has(place) ? "the day before" : clock(from * 1000);
  const range = `from ${begin} to ${clock(to * 1000)}; shaded: unknown, or an incident; arrow keys move the cursor`;
  const note = element("p", "note", number ? range : error || "No history yet; recording while this is open.");
  const csv = Object.assign(element("a", "", "as CSV"), { href: `${address(place)}&format=csv`, download: "" });
  const longer = element("button", "quietly", days.has(place) ? "last hours" : "24 hours");
  longer.type = "button";
  longer.dataset.days = "";
  longer.addEventListener("click", () => {
    if (!days.delete(place)) days.add(place);
    refresh(place);
  });
  note.append(" · ", longer);
  if (number) note.append(" · ", csv);
  if (!quiet.length || place.dataset.most) return [note];
  const names = element("p", "names", ...quiet.flatMap((name) => [element("code", "", name), " "]));
  return [note, element("details", "", element("summary", "", `${quiet.length} counters unchanged`), names)];
}

function each(act) {
  for (const place of document.querySelectorAll("[data-history]")) for (const chart of drawn.get(place)?.values() || []) act(chart);
}

document.addEventListener("theme", () => each((chart) => chart.plot?.redraw(false, true)));
addEventListener("resize", () => each((chart) => chart.draw()));
