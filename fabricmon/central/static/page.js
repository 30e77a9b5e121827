// Keeps the middle of the page fresh. The server renders it; nothing here makes HTML of data.
"use strict";

const PERIOD = 2000; // milliseconds between two updates
const PATIENCE = 8000; // milliseconds until a request without an answer counts as lost

const live = document.getElementById("live");
const pulse = document.getElementById("pulse");
let lastGood = Date.now();

function openDetails() {
  return new Set([...live.querySelectorAll("details[open]")].map((d) => d.dataset.id));
}

function show(html) {
  const open = openDetails();
  live.innerHTML = html;
  for (const details of live.querySelectorAll("details")) {
    if (open.has(details.dataset.id)) details.open = true;
  }
  const headline = live.querySelector(".headline");
  const fabric = document.querySelector(".fabric").textContent;
  if (headline) document.title = `${headline.dataset.title} · ${fabric || "fabricmon"}`;
}

function showNamed() {
  const named = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = named && named.querySelector("details");
  if (details) details.open = true;
}

async function update() {
  try {
    const answer = await fetch("fragment", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const html = await answer.text();
    // Text that is being selected must not vanish under the mouse.
    if (getSelection().isCollapsed) show(html);
    lastGood = Date.now();
    document.body.classList.remove("lost");
    pulse.textContent = `as of ${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC`;
  } catch {
    document.body.classList.add("lost");
    pulse.textContent = `no answer from the centre for ${Math.round((Date.now() - lastGood) / 1000)} s`;
  }
}

async function follow() {
  for (;;) {
    await new Promise((done) => setTimeout(done, PERIOD));
    if (!document.hidden) await update();
  }
}

const THEMES = ["", "light", "dark"];
const button = document.getElementById("theme");

function wear(theme) {
  document.documentElement.dataset.theme = theme;
  button.textContent = theme || "auto";
}

function remembered() {
  try {
    return localStorage.getItem("theme") || "";
  } catch {
    return ""; // storage can be forbidden
  }
}

button.hidden = false;
button.title = "colours: as the system, light, dark";
button.addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "") + 1) % THEMES.length];
  wear(theme);
  try {
    localStorage.setItem("theme", theme);
  } catch {
    return; // then it holds for this visit
  }
});
wear(remembered());
document.addEventListener("visibilitychange", () => document.hidden || update());
addEventListener("hashchange", showNamed);
showNamed();
follow();
