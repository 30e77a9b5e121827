// Writes relative times, once a second, by the clock of the server: `<time datetime data-form="ago|until">`.
let ahead = 0; // milliseconds by which the clock of the server is ahead of this browser

export function syncClock(seconds) {
  ahead = seconds * 1000 - Date.now();
}

export function now() {
  return Date.now() + ahead;
}

export function span(milliseconds) {
  const s = Math.max(0, Math.floor(milliseconds / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const two = (big, small, unit, below) => {
    const rest = Math.floor((s % big) / small);
    return `${Math.floor(s / big)} ${unit}${rest ? ` ${rest} ${below}` : ""}`;
  };
  return s < 86400 ? two(3600, 60, "h", "min") : two(86400, 3600, "d", "h");
}

export function clock(milliseconds) {
  return `${new Date(milliseconds).toISOString().slice(11, 19)} UTC`;
}

export function updateTimes(root = document) {
  for (const time of root.querySelectorAll("time[data-form]")) {
    const away = Date.parse(time.dateTime) - now();
    let words;
    if (time.dataset.form === "until") words = away > 0 ? `in ${span(away)}` : "now";
    else words = -away < 1000 ? "now" : `${span(-away)} ago`;
    if (time.textContent !== words) time.textContent = words;
  }
}

export function times() {
  updateTimes();
  setInterval(updateTimes, 1000);
}
