// What opened since the last look: badges, and a count that a click sets back. Kept in this browser only.
// A look ends when the page is hidden or left; a shorter absence than AWAY (a reload, another tab) continues it.
import { clock, now } from "./times.js";

const AWAY = 60000; // milliseconds

function stored(name) {
  try {
    return Number(localStorage.getItem(name)) || 0;
  } catch {
    return 0; // storage can be forbidden
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, String(value));
  } catch {
    return; // counts from the opening of the page then
  }
}

export function news(live) {
  let since = stored("seen") || Date.now(); // milliseconds
  const left = stored("left");
  if (left && Date.now() - left > AWAY) since = left;
  store("seen", since);

  const isNew = (seconds) => Number(seconds) * 1000 > since;

  // How many of the shown incidents are new.
  function mark() {
    const open = live.querySelector("#open");
    for (const one of live.querySelectorAll("#open [data-opened]")) one.querySelector(".badge.new").hidden = !isNew(one.dataset.opened);
    const number = (open?.dataset.openings || "").split(" ").filter((at) => at && isNew(at)).length;
    const button = live.querySelector("#news");
    if (button) {
      button.hidden = !number;
      button.textContent = `${number} new`;
      button.title = `Opened since ${clock(since)}. Click: mark as seen`;
      button.setAttribute("aria-label", `${number} new since ${clock(since)}: mark as seen`);
    }
    return number;
  }

  function look(at) {
    since = at;
    store("seen", at);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) store("left", now());
    else if (stored("left") && now() - stored("left") > AWAY) look(stored("left"));
  });
  addEventListener("pagehide", () => store("left", now()));
  return { mark, seen: () => look(now()) };
}
