// Colours: as the system, light, or dark; remembered in this browser.
const THEMES = ["", "light", "dark"];

function remembered() {
  try {
    return localStorage.getItem("theme") || "";
  } catch {
    return ""; // storage can be forbidden
  }
}

export function theme(button) {
  const wear = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = name || "auto";
    button.setAttribute("aria-label", `Colours: ${name || "auto, as the system"}`);
    document.dispatchEvent(new Event("theme"));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    const name = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "") + 1) % THEMES.length];
    wear(name);
    try {
      localStorage.setItem("theme", name);
    } catch {
      return; // not remembered
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
  wear(remembered());
}
