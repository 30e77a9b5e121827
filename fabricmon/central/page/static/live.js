// Follows the event stream of the server and fetches what changed. The stream sends at least every five seconds; when
// it stops, the page shows since when it is disconnected.
import { morph, parse } from "./morph.js";
import { syncClock, clock, now, updateTimes } from "./times.js";

const SILENT = 12000; // milliseconds without an event after which the server counts as disconnected
const RETRY = [1000, 2000, 4000, 8000, 15000]; // milliseconds between attempts
const POLL = 5000; // milliseconds between polls where no stream is available
const PATIENCE = 10000; // milliseconds until a request times out
const TYPING = 200; // milliseconds after the last key before a search starts

export async function get(path) {
  const answer = await fetch(path, { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok && answer.status !== 404) throw new Error(`HTTP ${answer.status}`);
  return answer;
}

export function status(text) {
  document.getElementById("status").textContent = text;
}

export function follow(live, map, panel, rows, badges) {
  const pulse = document.getElementById("pulse");
  const form = document.getElementById("search");
  let stream = null;
  let attempt = 0;
  let received = Date.now();
  let shown = "";
  let known = null;
  let timer = 0;

  // All that is asked of the page, in the form and so in the address.
  let page = "";
  function query() {
    const words = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) words.set(name, value);
    if (page) words.set("page", page);
    return words.toString();
  }

  // Sets the form from an address.
  function adopt(text) {
    const words = new URLSearchParams(text);
    for (const control of form.elements) {
      if (!control.name) continue;
      const value = words.get(control.name) || "";
      if (control.options && ![...control.options].some((option) => option.value === value)) control.add(new Option(value, value));
      control.value = value;
    }
    page = words.get("page") || "";
  }

  function alive() {
    received = Date.now();
    if (document.body.classList.contains("lost")) title();
    document.body.classList.remove("lost");
    pulse.textContent = `live · ${clock(now())}`;
  }

  function title() {
    const headline = live.querySelector("#headline");
    const fabric = document.querySelector(".fabric").textContent;
    const fresh = badges.mark();
    if (headline) document.title = `${fresh ? `(${fresh} new) ` : ""}${headline.dataset.title} · ${fabric || "fabricmon"}`;
  }

  async function refreshPage() {
    const words = query();
    const html = await (await get(`page/live${words ? `?${words}` : ""}`)).text();
    morph(live, parse(html));
    updateTimes(live);
    rows.refresh();
    title();
    options();
    announce();
  }

  // Announces new and closed incidents to screen readers.
  function announce() {
    const cards = new Map([...live.querySelectorAll("#open [data-id]")].map((card) => [card.dataset.id, card]));
    const title = (card) => card.querySelector(".title").textContent;
    if (known && known.query === query()) {
      const fresh = [...cards].filter(([id]) => !known.titles.has(id));
      const gone = [...known.titles].filter(([id]) => !cards.has(id));
      const words = [
        ...fresh.slice(0, 3).map(([, card]) => `New ${card.querySelector(".severity").lastChild.textContent} incident: ${title(card)}.`),
        ...gone.slice(0, 3).map(([, text]) => `No longer open: ${text}.`),
      ];
      if (words.length) status(words.join(" "));
      for (const [, card] of fresh) card.classList.add("fresh");
    }
    known = { query: query(), titles: new Map([...cards].map(([id, card]) => [id, title(card)])) };
  }

  // What the lists of the search form offer.
  function options() {
    const open = live.querySelector("#open");
    for (const name of ["kind", "rail", "leaf", "job"]) {
      const select = form.elements[name];
      const there = (open?.dataset[`${name}s`] || "").split("\n").filter(Boolean);
      const had = new Set([...select.options].map((option) => option.value));
      for (const value of there) {
        if (!had.has(value)) select.add(new Option(name === "rail" ? `rail ${value}` : name === "kind" ? value.replaceAll("_", " ") : value, value));
      }
    }
  }

  async function refresh() {
    try {
      await Promise.all([refreshPage(), map.refresh(), panel.refresh()]);
      alive();
    } catch {
      lost();
    }
  }

  function lost() {
    const gone = Date.now() - received;
    if (gone < SILENT) return;
    document.body.classList.add("lost");
    pulse.textContent = `Disconnected since ${clock(received)}; data below is stale`;
    document.title = `Disconnected since ${clock(received)} · ${document.querySelector(".fabric").textContent || "fabricmon"}`;
  }

  function changed(event) {
    const news = JSON.parse(event.data);
    syncClock(news.at);
    attempt = 0;
    alive();
    const state = `${news.live} ${news.map}`;
    if (state !== shown) {
      shown = state;
      refresh();
    }
  }

  function open() {
    close();
    if (document.hidden) return;
    stream = new EventSource("page/events");
    stream.addEventListener("update", changed);
    stream.addEventListener("error", () => {
      close();
      const pause = RETRY[Math.min(attempt, RETRY.length - 1)];
      attempt += 1;
      timer = setTimeout(open, pause * (0.75 + Math.random() / 2));
    });
  }

  function close() {
    clearTimeout(timer);
    stream?.close();
    stream = null;
  }

  setInterval(() => {
    if (document.hidden) return;
    lost();
    if (stream && Date.now() - received > SILENT) open();
  }, 1000);
  setInterval(() => {
    if (!document.hidden && attempt > 1) refresh(); // no stream: poll
  }, POLL);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);

  let typing = 0;
  function show() {
    map.search(Object.fromEntries(new FormData(form)));
    return refreshPage().then(() => {
      const number = live.querySelector("#open h2 .n")?.textContent || "0";
      status(`${number} open incidents shown`);
    }, lost);
  }

  function search() {
    page = "";
    const words = query();
    history.replaceState(null, "", `${location.pathname}${words ? `?${words}` : ""}${location.hash}`);
    show();
  }
  live.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-keep]");
    if (event.target.closest("#news")) {
      badges.seen();
      title();
      status("Marked as seen.");
      live.querySelector("#open .title")?.focus();
    }
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    adopt(link.search);
    history.pushState(null, "", `${location.pathname}${link.search}${location.hash}`);
    const again = link.textContent;
    show().then(() => {
      if (!link.isConnected) [...live.querySelectorAll("a[data-keep]")].find((one) => one.textContent === again)?.focus();
    });
  });
  document.getElementById("map").addEventListener("click", (event) => {
    const mode = event.target.dataset.mode;
    if (mode === undefined) return;
    form.elements.map.value = mode;
    const words = query();
    history.replaceState(null, "", `${location.pathname}${words ? `?${words}` : ""}${location.hash}`);
    map.search(Object.fromEntries(new FormData(form)));
  });
  addEventListener("popstate", () => {
    const before = query();
    adopt(location.search);
    if (query() !== before) show();
  });
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, TYPING);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest("input, textarea, select, dialog");
    if (event.key === "/" && !typed && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      form.elements.q.focus();
    }
  });
  adopt(location.search);
  map.search(Object.fromEntries(new FormData(form)));
  title();
  announce();
  options();
  refresh();
  open();
  return { refresh };
}
