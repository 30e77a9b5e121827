// The detail panel: an incident, a node, a component. The address names what is open (#incident/ID, #node/NAME,
// #port/NODE/NAME, #about/KIND/NAME, #unit/NAME), so that links and reload work.
import { charts } from "./chart.js";
import { get } from "./live.js";
import { morph, parse } from "./morph.js";
import { updateTimes } from "./times.js";

const CHARTS = 15000; // milliseconds between two points of a chart
const KINDS = ["port", "gpu", "nvlink", "pcie", "flow"];

// Address of the part of the page for a hash, null where it names nothing; older links name an incident by its id alone.
function pathOf(hash) {
  const [word, ...rest] = hash.replace(/^#/, "").split("/").map(safely);
  if (word === "incident" && rest.length) return `incident?${new URLSearchParams({ id: rest.join("/") })}`;
  if (word === "node" && rest.length) return `node?${new URLSearchParams({ name: rest.join("/") })}`;
  if (word === "about" && rest.length > 1) return `named?${new URLSearchParams({ kind: rest[0], name: rest.slice(1).join("/") })}`;
  if (KINDS.includes(word) && rest.length > 1) {
    return `component?${new URLSearchParams({ kind: word, node: rest[0], name: rest.slice(1).join("/") })}`;
  }
  if (/^[0-9a-f]{6,}$/.test(word) && !rest.length) return `incident?${new URLSearchParams({ id: word })}`;
  return null;
}

function safely(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// The hash for one of the server's own addresses, "" where it is another.
function hashOf(href) {
  const [page, words = ""] = href.split("?");
  const query = new URLSearchParams(words);
  const part = (name) => query.get(name).split("/").map(encodeURIComponent).join("/");
  if (page === "incident") return `#incident/${part("id")}`;
  if (page === "node") return `#node/${part("name")}`;
  if (page === "component") return `#${query.get("kind")}/${encodeURIComponent(query.get("node"))}/${part("name")}`;
  if (page === "named") return `#about/${query.get("kind")}/${part("name")}`;
  return "";
}

export function openPanel(panel, map) {
  let path = null;
  let opener = null;
  let turn = 0;

  const body = document.createElement("div");
  body.className = "inside";
  const shut = document.createElement("button");
  shut.type = "button";
  shut.className = "shut";
  shut.textContent = "✕";
  shut.setAttribute("aria-label", "Close");
  panel.append(shut, body);

  async function load(first) {
    const mine = ++turn;
    const html = await (await get(`${path}&part=1`)).text();
    if (mine !== turn) return; // another was opened meanwhile
    if (first) body.replaceChildren();
    morph(body, parse(html));
    updateTimes(body);
    charts(body);
    if (first) body.querySelector("#panel-title")?.focus({ preventScroll: true });
  }

  async function route() {
    const wanted = pathOf(location.hash);
    const unit = location.hash.startsWith("#unit/") ? safely(location.hash.slice(6)) : "";
    map.focus(unit);
    const drawn = unit && document.getElementById("map");
    if (drawn && drawn.getBoundingClientRect().top > 0.7 * innerHeight) drawn.scrollIntoView(); // as on a phone, below all cards
    if (wanted === path) return;
    const before = path;
    path = wanted;
    map.mark(path);
    if (!path) {
      turn += 1;
      panel.hidden = true;
      body.replaceChildren();
      document.body.classList.remove("beside");
      if (before && opener?.isConnected) opener.focus({ preventScroll: true });
      return;
    }
    if (!before) opener = document.activeElement;
    panel.hidden = false;
    document.body.classList.add("beside");
    panel.scrollTop = 0;
    try {
      await load(true);
    } catch {
      body.textContent = "The server does not respond.";
    }
  }

  function close() {
    history.pushState(null, "", location.pathname + location.search);
    route();
  }

  shut.addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && path && !document.querySelector("dialog[open]")) close();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const hash = hashOf(link.getAttribute("href"));
    if (!hash) return;
    event.preventDefault();
    location.hash = hash;
  });
  setInterval(() => {
    if (path && !document.hidden) charts(body);
  }, CHARTS);
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  route();
  return { refresh: () => (path ? load(false) : Promise.resolve()) };
}
