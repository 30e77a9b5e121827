// The fabric as a map on one canvas, up to a hundred thousand ports. Neighbours in the same state are one rectangle, so
// that the cost of drawing grows with the differences, not with the size.
import { get } from "./live.js";
import { arrange, corner, whatIsAt } from "./layout.js";

const STATES = ["none", "off", "ok", "maintenance", "symptom", "unknown", "warning", "critical"];
const WORDS = {
  none: "not monitored",
  off: "down, no symptom",
  ok: "OK",
  maintenance: "in maintenance",
  symptom: "symptom or info incident",
  unknown: "unknown: no current data",
  warning: "warning",
  critical: "critical",
};
const [NONE, OFF, OK, MAINTENANCE, SYMPTOM, UNKNOWN, WARNING, CRITICAL] = STATES.keys();
const SIGN = 9; // pixels of a cell from which it shows a sign
const LARGE = 1200; // nodes from which the map gets the whole width
const FIRST = "0".charCodeAt(0);
const LEVEL = 10; // digit of the lowest level of load or errors
const LEVELS = 5000; // milliseconds between two readings of load and errors
const OPENABLE = 6; // pixels of a cell below which a click opens the unit

export class FabricMap {
  constructor(section) {
    this.section = section;
    this.section.hidden = false;
    this.canvas = section.querySelector("canvas");
    this.frame = section.querySelector(".frame");
    this.tip = section.querySelector(".tip");
    this.ring = section.querySelector(".ring");
    this.status = section.querySelector(".unseen");
    this.plan = null;
    this.health = null;
    this.unit = "";
    this.wanted = {};
    this.mode = "";
    this.levels = {};
    this.cursor = null;
    this.drawn = 0; // milliseconds that the last drawing took
    new ResizeObserver(() => this.draw()).observe(this.frame);
    document.addEventListener("theme", () => {
      this.paint = null; // of the colours before
      this.draw();
    });
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.hide());
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.cursor && this.show(this.cursor));
    this.canvas.addEventListener("blur", () => this.hide());
    section.querySelector(".all").addEventListener("click", () => (location.hash = ""));
    section.querySelector("details").addEventListener("toggle", () => this.table());
  }

  async refresh() {
    const health = await (await get("page/health")).json();
    if (!this.plan || health.plan !== this.tag) {
      const answer = await get("page/plan");
      this.tag = answer.headers.get("ETag")?.replaceAll('"', "");
      this.plan = await answer.json();
      const nodes = this.plan.units.reduce((sum, unit) => sum + unit.nodes.length, 0);
      document.body.classList.toggle("large", nodes > LARGE);
      this.section.querySelector(".count").textContent = nodes.toLocaleString("en");
      this.section.classList.toggle("empty", !nodes);
      this.cursor = null;
    }
    this.health = health;
    await this.level();
    this.draw();
    this.table();
  }

  // ---------------------------------------------------------------- load and errors

  // Fetches the levels of the cells while the map shows them; they change with every reading.
  async level() {
    if (!this.mode) return;
    const levels = await (await get("page/levels")).json();
    const digits = (cells) => cells.replace(/[^.]/g, (cell) => (cell === "?" ? UNKNOWN : String.fromCharCode(FIRST + LEVEL + Number(cell)))).replaceAll(".", NONE);
    this.levels = levels.plan === this.tag ? { load: digits(levels.load), errors: digits(levels.errors) } : {};
  }

  showMode(mode) {
    this.mode = mode;
    for (const button of this.section.querySelectorAll("[data-mode]")) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    for (const scale of this.section.querySelectorAll("[data-scale]")) scale.hidden = scale.dataset.scale !== mode;
    clearInterval(this.timer);
    const update = () => this.level().then(() => this.draw(), () => {});
    if (mode) this.timer = setInterval(() => document.hidden || update(), LEVELS);
    update();
  }

  // What the cells of ports show, one digit each: their state, with a mode 10 and more for their level.
  get digits() {
    return this.levels[this.mode] || this.health.ports;
  }

  // ---------------------------------------------------------------- what is shown

  focus(unit) {
    if (unit === this.unit) return;
    this.unit = unit;
    this.cursor = null;
    this.draw();
  }

  search(wanted) {
    this.wanted = wanted;
    if ((wanted.map || "") !== this.mode) this.showMode(wanted.map || "");
    this.draw();
  }

  mark(path) {
    const words = new URLSearchParams((path || "").split("?")[1]);
    this.marked = path?.startsWith("component?") ? words.get("node") : path?.startsWith("node?") ? words.get("name") : "";
    this.draw();
  }

  shown() {
    const unit = this.plan.units.find((one) => one.name === this.unit);
    if (!unit) return this.plan;
    return { units: this.plan.units, tiers: [], only: unit };
  }

  draw() {
    if (!this.plan || !this.health || !this.frame.clientWidth) return;
    const began = performance.now();
    const width = this.frame.clientWidth;
    const alone = this.shown().only;
    const high = document.body.classList.contains("large") ? 620 : 560;
    this.layout = alone ? this.one(alone, width) : arrange(this.plan, width, high);
    const { layout, canvas } = this;
    const dots = devicePixelRatio || 1;
    const pen = canvas.getContext("2d");
    // Only what differs is written: each write to the document costs a layout when its height is read below.
    set(canvas, "width", Math.round(width * dots));
    set(canvas, "height", Math.round(layout.height * dots));
    set(canvas.style, "height", `${layout.height}px`);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, width, layout.height);
    this.paint ||= paints(pen, canvas);
    for (const tier of layout.tiers) this.drawTier(pen, tier);
    for (const block of layout.blocks) this.drawBlock(pen, block);
    this.legend();
    this.section.classList.toggle("one", Boolean(alone));
    const focused = this.section.querySelector(".focused");
    if (alone && set(focused, "textContent", alone.name)) focused.href = `named?${new URLSearchParams({ kind: "unit", name: alone.name })}`;
    set(focused, "hidden", !alone);
    // Taller than the window, it sticks by its lower edge.
    set(this.section.style, "top", `${Math.min(12, innerHeight - this.section.offsetHeight - 12)}px`);
    this.drawn = performance.now() - began;
    canvas.dataset.drawn = this.drawn.toFixed(2);
    canvas.dataset.cell = layout.size;
  }

  // One unit, as large as possible; its cells keep their indices in `health`.
  one(unit, width) {
    const all = arrange(this.plan, width, 1e9);
    const index = this.plan.units.indexOf(unit);
    const { cell, node, leaf } = all.blocks[index];
    const layout = arrange({ units: [unit], tiers: [] }, width, 460);
    Object.assign(layout.blocks[0], { index, cell, node, leaf });
    return layout;
  }

  drawTier(pen, tier) {
    pen.fillStyle = this.paint.ink;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText(tier.name, 0, tier.y + tier.cell / 2);
    let at = this.plan.tiers.slice(0, this.layout.tiers.indexOf(tier)).reduce((sum, one) => sum + one.switches.length, 0);
    for (const place of tier.switches.keys()) {
      const x = tier.x + (place % tier.cols) * tier.cell;
      const y = tier.y + Math.floor(place / tier.cols) * tier.cell;
      this.cell(pen, Number(this.health.switches[at]), x, y, tier.cell, tier.cell);
      at += 1;
    }
  }

  drawBlock(pen, block) {
    const { unit, size } = block;
    const ports = this.digits;
    const troubles = [0, 0];
    const dim = this.dimmed(block);
    for (let line = -1; line < unit.lines.length; line += 1) {
      const states = line < 0 ? this.health.nodes : this.health.ports;
      const start = line < 0 ? block.node : block.cell + line * unit.nodes.length;
      const digits = line < 0 ? this.health.nodes : ports;
      let from = 0;
      for (let at = 0; at < unit.nodes.length; at += 1) {
        const state = states.charCodeAt(start + at) - FIRST;
        if (state >= WARNING) troubles[state - WARNING] += 1;
        const next = at + 1;
        const own = digits.charCodeAt(start + at);
        const ends = next === unit.nodes.length || next % block.cols === 0 || size >= OPENABLE || digits.charCodeAt(start + next) !== own;
        if (ends) {
          const [x, y] = corner(block, from, line);
          this.cell(pen, own - FIRST, x, y, size * (next - from), size);
          from = next;
        }
      }
      if (line >= 0 && unit.lines[line].leaf) {
        for (let band = 0; band < block.bands; band += 1) {
          const [x, y] = corner(block, band * block.cols, line);
          this.leaf(pen, Number(this.health.leaves[block.leaf + line]), x - 1.7 * size, y, size);
        }
      }
    }
    this.title(pen, block, troubles);
    if (dim) {
      pen.fillStyle = this.paint.veil;
      for (let at = 0; at < unit.nodes.length; at += 1) {
        for (let line = -1; line < unit.lines.length; line += 1) {
          if (dim(at, line)) {
            const [x, y] = corner(block, at, line);
            pen.fillRect(x, y, size, size);
          }
        }
      }
    }
    if (this.marked && unit.nodes.includes(this.marked)) {
      const at = unit.nodes.indexOf(this.marked);
      const [x, y] = corner(block, at, -1);
      pen.strokeStyle = this.paint.mark;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, size + 1, block.band + (size > 8 ? -1 : 1));
    }
  }

  // Test for the cells that do not match the search; null without a search.
  dimmed({ unit }) {
    const words = (this.wanted.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const rail = this.wanted.rail ? `rail ${this.wanted.rail.split("/").at(-1)}` : "";
    const host = (this.wanted.host || "").toLowerCase();
    const { leaf } = this.wanted;
    if (!words.length && !rail && !host && !leaf) return null;
    const met = unit.nodes.map((node) => {
      const text = `${node} ${unit.name}`.toLowerCase();
      return words.every((word) => text.includes(word)) && node.toLowerCase().includes(host);
    });
    const matches = ({ name, leaf: own }) => (!rail || name === rail) && (!leaf || own === leaf);
    return (at, line) => !met[at] || ((rail || leaf) && (line < 0 || !matches(unit.lines[line])));
  }

  title(pen, block, [warnings, criticals]) {
    pen.textBaseline = "alphabetic";
    pen.font = "11px system-ui, sans-serif";
    let x = block.x;
    const y = block.y + 11;
    const write = (words, colour) => {
      pen.fillStyle = colour;
      pen.fillText(words, x, y, Math.max(1, block.x + block.wide - x));
      x += pen.measureText(words).width + 5;
    };
    const room = () => block.x + block.wide - x;
    if (room() > 26) write(block.unit.name, this.paint.ink);
    if (criticals && room() > 14) write(`✕${criticals}`, this.paint.criticalInk);
    if (warnings && room() > 14) write(`▲${warnings}`, this.paint.warningInk);
    if ((criticals || warnings) && block.size < SIGN) {
      pen.strokeStyle = criticals ? this.paint.criticalInk : this.paint.warningInk;
      pen.lineWidth = 1.5;
      pen.strokeRect(block.x - 3, block.y - 1, block.wide + 6, block.high - 3);
    }
  }

  cell(pen, state, x, y, wide, high) {
    if (state === NONE) {
      if (high < SIGN) return;
      pen.strokeStyle = this.paint.line;
      pen.lineWidth = 1;
      pen.strokeRect(x + 1.5, y + 1.5, wide - 4, high - 4);
      return;
    }
    const gap = high >= 8 ? 2 : high >= 4 ? 1 : 0;
    const [w, h] = [wide - gap, high - gap];
    pen.fillStyle = this.paint.fill[state];
    pen.beginPath();
    if (high >= SIGN) pen.roundRect(x, y, w, h, 2.5);
    else pen.rect(x, y, w, h);
    pen.fill();
    if (state === UNKNOWN) {
      pen.fillStyle = this.paint.hatch;
      pen.fill();
    }
    if (high >= SIGN && state !== OK && state < LEVEL) this.sign(pen, state, x, y, w, h);
  }

  // The state without colours.
  sign(pen, state, x, y, w, h) {
    const [cx, cy, r] = [x + w / 2, y + h / 2, Math.min(w, h) * 0.26];
    pen.strokeStyle = pen.fillStyle = this.paint.sign[state];
    pen.lineWidth = Math.max(1.4, r / 2.2);
    pen.beginPath();
    if (state === CRITICAL) {
      pen.moveTo(cx - r, cy - r);
      pen.lineTo(cx + r, cy + r);
      pen.moveTo(cx + r, cy - r);
      pen.lineTo(cx - r, cy + r);
      pen.stroke();
    } else if (state === WARNING) {
      pen.moveTo(cx, cy - r);
      pen.lineTo(cx + r * 1.1, cy + r * 0.9);
      pen.lineTo(cx - r * 1.1, cy + r * 0.9);
      pen.fill();
    } else if (state === SYMPTOM) {
      pen.arc(cx, cy, r * 0.75, 0, 7);
      pen.fill();
    } else if (state === MAINTENANCE || state === OFF) {
      pen.moveTo(cx - r, cy);
      pen.lineTo(cx + r, cy);
      pen.stroke();
    }
  }

  leaf(pen, state, x, y, size) {
    if (state === NONE) return;
    const r = Math.max(1, size * 0.36);
    pen.beginPath();
    pen.arc(x + size / 2, y + (size - 1) / 2, r, 0, 7);
    pen.fillStyle = state === OK ? this.paint.calm : this.paint.fill[state];
    pen.fill();
    if (state === UNKNOWN) {
      pen.fillStyle = this.paint.hatch;
      pen.fill();
    }
    if (size >= SIGN && state !== OK && state !== UNKNOWN) this.sign(pen, state, x, y - 0.5, size, size);
  }

  legend() {
    const { nodes, ports } = this.health;
    const counts = new Array(STATES.length).fill(0);
    for (const digits of [nodes, ports]) {
      for (let at = 0; at < digits.length; at += 1) counts[digits.charCodeAt(at) - FIRST] += 1;
    }
    for (const entry of this.section.querySelectorAll(".legend [data-state]")) {
      const state = STATES.indexOf(entry.dataset.state);
      set(entry, "hidden", !counts[state]);
      set(entry.querySelector("b"), "textContent", counts[state].toLocaleString("en"));
    }
    const bad = counts[CRITICAL] + counts[WARNING];
    const label = `Map of the fabric: ${nodes.length} nodes, ${ports.length} ports; ${bad ? `${counts[CRITICAL]} critical, ${counts[WARNING]} in warning, ` : "none in an incident, "}${counts[UNKNOWN]} unknown. Arrow keys move, Enter opens.`;
    if (this.canvas.getAttribute("aria-label") !== label) this.canvas.setAttribute("aria-label", label);
  }

  // ---------------------------------------------------------------- pointer and keyboard

  describe(spot) {
    if (spot.tier) {
      const tiers = this.plan.tiers;
      const before = tiers.slice(0, tiers.findIndex((tier) => tier.name === spot.tier.name)).reduce((sum, tier) => sum + tier.switches.length, 0);
      return [spot.tier.switches[spot.at], this.wordsOf(this.health.switches[before + spot.at])];
    }
    const { unit } = spot.block;
    if (spot.leaf) {
      const line = unit.lines[spot.line];
      return [`leaf ${line.leaf}`, `${line.name} of ${unit.name}`, this.wordsOf(this.health.leaves[spot.block.leaf + spot.line])];
    }
    if (spot.at === undefined) return [unit.name, `${unit.nodes.length} nodes`];
    const node = unit.nodes[spot.at];
    if (spot.line < 0) return [node, unit.name, `node: ${this.wordsOf(this.health.nodes[spot.block.node + spot.at])}`];
    const line = unit.lines[spot.line];
    const state = this.health.ports[spot.block.cell + spot.line * unit.nodes.length + spot.at];
    if (state === "0") return [node, `no port on ${line.name}`];
    const words = [`${node}/${this.port(spot)}`, `${line.name}${line.leaf ? ` · leaf ${line.leaf}` : ""}`, this.wordsOf(state)];
    const level = this.digits.charCodeAt(spot.block.cell + spot.line * unit.nodes.length + spot.at) - FIRST;
    if (level >= LEVEL) words.push(`${this.mode}: ${this.section.querySelector(`[data-scale=${this.mode}] .l${level - LEVEL}`).parentElement.textContent}`);
    return words;
  }

  wordsOf(digit) {
    return WORDS[STATES[Number(digit)]];
  }

  port({ block, at, line }) {
    const { port, odd } = block.unit.lines[line];
    return odd[at] ?? port;
  }

  target(spot) {
    const about = (kind, name) => `#about/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
    if (spot.tier) return about("switch", spot.tier.switches[spot.at]);
    if (spot.leaf && spot.block.unit.lines[spot.line].leaf) return about("leaf", spot.block.unit.lines[spot.line].leaf);
    const { unit, size } = spot.block;
    if (spot.at === undefined || (size < OPENABLE && !this.shown().only)) return `#unit/${encodeURIComponent(unit.name)}`;
    const node = encodeURIComponent(unit.nodes[spot.at]);
    if (spot.line < 0 || this.health.ports[spot.block.cell + spot.line * unit.nodes.length + spot.at] === "0") return `#node/${node}`;
    return `#port/${node}/${this.port(spot).split("/").map(encodeURIComponent).join("/")}`;
  }

  spot(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.layout && whatIsAt(this.layout, event.clientX - box.left, event.clientY - box.top);
  }

  hover(event) {
    const spot = this.spot(event);
    this.canvas.classList.toggle("over", Boolean(spot && this.target(spot)));
    if (spot) this.show(spot);
    else this.hide();
  }

  click(event) {
    const spot = this.spot(event);
    if (!spot) return;
    const target = this.target(spot);
    if (target) location.hash = target;
  }

  show(spot) {
    const [title, ...rest] = this.describe(spot);
    const strong = document.createElement("b");
    strong.textContent = title;
    const lines = rest.map((text) => {
      const line = document.createElement("span");
      line.textContent = text;
      return line;
    });
    this.tip.replaceChildren(strong, ...lines);
    this.tip.hidden = false;
    let [x, y, size] = [0, 0, 0];
    if (spot.tier) {
      size = spot.tier.cell;
      x = spot.tier.x + (spot.at % spot.tier.cols) * size;
      y = spot.tier.y + Math.floor(spot.at / spot.tier.cols) * size;
    } else if (spot.at === undefined) {
      ({ x, y } = spot.block);
    } else {
      ({ size } = spot.block);
      [x, y] = corner(spot.block, spot.at, spot.line);
    }
    this.ring.hidden = !size;
    const style = (element, values) => Object.entries(values).forEach(([name, value]) => (element.style[name] = `${value}px`));
    style(this.ring, { left: x - 2, top: y - 2, width: size + 2, height: size + 2 });
    const left = Math.min(Math.max(0, x + size + 6), Math.max(0, this.frame.clientWidth - this.tip.offsetWidth - 4));
    const below = y + size + 6;
    style(this.tip, { left, top: below });
  }

  hide() {
    this.tip.hidden = true;
    this.ring.hidden = true;
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!this.layout?.blocks.length) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.cursor) location.hash = this.target(this.cursor) || location.hash;
      return;
    }
    if (!step && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const { blocks } = this.layout;
    let { block, at, line } = this.cursor?.block && blocks.includes(this.cursor.block) ? this.cursor : { block: blocks[0], at: -1, line: -1 };
    if (!step) {
      block = event.key === "Home" ? blocks[0] : blocks.at(-1);
      at = event.key === "Home" ? 0 : block.unit.nodes.length - 1;
    } else {
      at += step[0];
      line = Math.max(-1, Math.min(block.unit.lines.length - 1, line + step[1]));
      const beside = blocks[blocks.indexOf(block) + Math.sign(step[0])];
      if (at < 0 || at >= block.unit.nodes.length) {
        if (!beside) at = Math.max(0, Math.min(block.unit.nodes.length - 1, at));
        else {
          block = beside;
          at = step[0] > 0 ? 0 : beside.unit.nodes.length - 1;
          line = Math.min(line, beside.unit.lines.length - 1);
        }
      }
    }
    at = Math.max(0, at);
    this.cursor = { block, at, line };
    this.show(this.cursor);
    this.ring.scrollIntoView({ block: "nearest" });
    this.status.textContent = this.describe(this.cursor).join(", ");
  }

  // The map as a table, for screen readers; made only while it is open.
  table() {
    const details = this.section.querySelector("details");
    if (!details.open || !this.plan || !this.health) return;
    const rows = [];
    let [node, cell] = [0, 0];
    for (const unit of this.plan.units) {
      const size = unit.nodes.length * unit.lines.length;
      const digits = this.health.nodes.slice(node, node + unit.nodes.length) + this.health.ports.slice(cell, cell + size);
      const count = (state) => digits.split(String(state)).length - 1;
      rows.push([unit.name, unit.nodes.length, unit.lines.length, ...[CRITICAL, WARNING, UNKNOWN, SYMPTOM, MAINTENANCE].map(count)]);
      node += unit.nodes.length;
      cell += size;
    }
    const body = details.querySelector("tbody");
    body.replaceChildren(
      ...rows.map(([name, ...numbers]) => {
        const row = document.createElement("tr");
        const head = document.createElement("th");
        head.scope = "row";
        const link = document.createElement("a");
        link.href = `#unit/${encodeURIComponent(name)}`;
        link.textContent = name;
        head.append(link);
        row.append(head, ...numbers.map((number) => Object.assign(document.createElement("td"), { textContent: number || "–", className: "n" })));
        return row;
      }),
    );
  }
}

// Writes a property that differs; returns whether it did.
function set(object, name, value) {
  if (object[name] === value) return false;
  object[name] = value;
  return true;
}

// Colours of the theme, and the hatching for unknown.
function paints(pen, element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  brush.strokeStyle = colour("map-hatch");
  brush.lineWidth = 1.6;
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift, 6);
    brush.lineTo(shift + 6, 0);
  }
  brush.stroke();
  return {
    fill: [...STATES.map((name) => colour(`map-${name}`)), "", "", ...[0, 1, 2, 3, 4, 5].map((level) => colour(`level-${level}`))],
    sign: STATES.map((name) => colour(`map-${name}-sign`)),
    hatch: pen.createPattern(tile, "repeat"),
    calm: colour("map-leaf"),
    ink: colour("soft"),
    line: colour("line"),
    veil: colour("map-veil"),
    mark: colour("link"),
    criticalInk: colour("critical"),
    warningInk: colour("warning"),
  };
}
