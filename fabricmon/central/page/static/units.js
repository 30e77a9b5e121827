// Units that people use: bits per second, decibel milliwatts, degrees Celsius, percent, events per second.
const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

// Unit of the server -> factor, unit to show, whether it takes a prefix.
const UNITS = {
  ratio: [100, "%", false],
  celsius: [1, "°C", false],
  dBm: [1, "dBm", false],
  watts: [1, "W", true],
  volts: [1, "V", false],
  amperes: [1000, "mA", false],
  "errors/s": [1, "errors/s", false],
  bytes: [1, "B", true],
  "bytes/s": [8, "b/s", true],
  bytes_per_second: [8, "b/s", true],
  "seconds/s": [100, "% of the time", false],
  transfers_per_second: [1, "T/s", true],
};

const LEAST = 1e-16; // of a logarithmic axis: 0 stands there

// How the values of a series are shown: factor, unit with prefix, chosen by its largest value.
export function scaleOf(series) {
  const [factor, unit, prefixed] = UNITS[series.unit] || [1, series.unit, true];
  const log = series.scale === "log";
  const top = series.points.reduce((most, [, value]) => Math.max(most, Math.abs(value * factor)), 0);
  const [size, letter] = (prefixed && !log && PREFIXES.find(([least]) => top >= least)) || [1, ""];
  const of = (value) => (log ? Math.max(value, LEAST) : (value * factor) / size);
  return { of, log, unit: `${letter}${unit}`, joined: unit.startsWith("/") };
}

// A number without its unit, short.
export function known(value, scale) {
  if (scale.log) return value <= LEAST ? "0" : value.toExponential(0).replace("e+", "e");
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 0.01) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

// A number with its unit, "unknown" for null.
export function shown(value, scale) {
  if (value === null || value === undefined) return "unknown";
  const number = scale.log && value > LEAST ? value.toExponential(1) : known(value, scale);
  return scale.unit ? `${number}${scale.joined ? "" : " "}${scale.unit}` : number;
}
