// Positions of the units of the map for a width and a target height: pure, no canvas.
// A unit is a row of nodes with one line per rail below it, each with its leaf in front.
const SIZES = [22, 18, 15, 13, 11, 9, 7, 6, 5, 4, 3, 2]; // pixels of a cell, the largest that fits
const GAP = 14; // pixels between units
const LEAD = 2; // cells before a line, for its leaf
const EDGE = 4; // pixels left free on both sides, for the frames around units
const LETTERS = 6; // pixels of a letter of a unit's name

export function arrange(plan, width, height) {
  let best = null;
  for (const size of SIZES) {
    best = place(plan, width, size);
    if (best.height <= height && best.fits) break;
  }
  return best;
}

function place(plan, width, size) {
  const label = 16;
  const room = Math.max(4, Math.floor((width - 2 * EDGE) / size) - LEAD);
  const blocks = [];
  const tiers = [];
  let y = 0;
  for (const tier of plan.tiers) {
    const cells = Math.max(Math.min(size, 15), 10);
    const cols = Math.max(1, Math.floor((width - 70) / cells));
    tiers.push({ name: tier.name, switches: tier.switches, x: 70, y: y + 2, cell: cells, cols });
    y += Math.ceil(tier.switches.length / cols) * cells + 8;
  }
  let x = EDGE;
  let tallest = 0;
  let cell = 0;
  let node = 0;
  let leaf = 0;
  for (const [index, unit] of plan.units.entries()) {
    const cols = Math.max(1, Math.min(unit.nodes.length, room));
    const bands = Math.ceil(unit.nodes.length / cols);
    const band = (unit.lines.length + 1) * size + (size > 8 ? 4 : 2);
    const wide = (cols + LEAD) * size;
    const high = label + bands * band + 8;
    if (x > EDGE && x + wide > width - EDGE) {
      x = EDGE;
      y += tallest;
      tallest = 0;
    }
    blocks.push({ index, unit, x, y, cols, bands, band, size, wide, high, label, cell, node, leaf });
    x += wide + GAP;
    tallest = Math.max(tallest, high);
    cell += unit.lines.length * unit.nodes.length;
    node += unit.nodes.length;
    leaf += unit.lines.length;
  }
  const names = plan.units.reduce((most, unit) => Math.max(most, unit.name.length), 0);
  const narrow = blocks.some((block) => block.wide < Math.min(names, 8) * LETTERS);
  const whole = blocks.every((block) => block.bands === 1); // no unit continues in a second row
  return { blocks, tiers, size, width, height: y + tallest, fits: size <= 7 || (whole && (size <= 13 || !narrow)) };
}

// Top left corner of a cell; line -1 is the node itself.
export function corner(block, at, line) {
  const band = Math.floor(at / block.cols);
  const gap = line >= 0 && block.size > 8 ? 4 : line >= 0 ? 2 : 0;
  return [
    block.x + (LEAD + (at % block.cols)) * block.size,
    block.y + block.label + band * block.band + (line + 1) * block.size + gap,
  ];
}

// The element at a point: {block, at, line}, {block} for its name, {tier, at}, null.
export function whatIsAt(layout, x, y) {
  for (const tier of layout.tiers) {
    const column = Math.floor((x - tier.x) / tier.cell);
    const at = Math.floor((y - tier.y) / tier.cell) * tier.cols + column;
    if (column >= 0 && column < tier.cols && y >= tier.y && at < tier.switches.length) return { tier, at };
  }
  const block = layout.blocks.find((b) => x >= b.x && x < b.x + b.wide && y >= b.y && y < b.y + b.high);
  if (!block) return null;
  const inside = y - block.y - block.label;
  if (inside < 0) return { block };
  const band = Math.floor(inside / block.band);
  const gap = block.size > 8 ? 4 : 2;
  const within = inside - band * block.band;
  const line = within < block.size ? -1 : Math.floor((within - block.size - gap) / block.size);
  const column = Math.floor((x - block.x) / block.size) - LEAD;
  const at = band * block.cols + column;
  if (band >= block.bands || line >= block.unit.lines.length) return null;
  if (column < 0) return line >= 0 ? { block, line, leaf: true } : { block };
  return at < block.unit.nodes.length && column < block.cols ? { block, at, line } : null;
}
