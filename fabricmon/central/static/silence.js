// Silencing and acknowledging from the page, over the API. An acknowledgement is a silence of this one incident.
import { say } from "./live.js";

const DURATIONS = { "1h": "1 hour", "4h": "4 hours", "12h": "12 hours", "1d": "1 day", "3d": "3 days", "7d": "1 week" };

function kept(store, name, value) {
  try {
    if (value === undefined) return store.getItem(name) || "";
    store.setItem(name, value);
  } catch {
    return ""; // storage can be forbidden
  }
  return value;
}

// The token stays in this tab's memory of the session, never in what outlives it.
async function ask(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const token = kept(sessionStorage, "token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(`api/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (answer.ok) return;
  const said = await answer.json().catch(() => ({}));
  const error = new Error(said.error || `HTTP ${answer.status}`);
  error.status = answer.status;
  throw error;
}

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function field(label, control, hint = "") {
  return make("label", { class: "field" }, make("span", {}, label), control, ...(hint ? [make("small", {}, hint)] : []));
}

function dialog(title, button, fields, submit) {
  const error = make("p", { class: "error", role: "alert" });
  error.hidden = true;
  const token = field("Token", make("input", { name: "token", type: "password", autocomplete: "off" }), "The centre asks for a token to change anything.");
  token.hidden = true;
  const cancel = make("button", { type: "button", class: "button" }, "Cancel");
  const go = make("button", { type: "submit", class: "button strong" }, button);
  const form = make("form", { method: "dialog" }, make("h2", { id: "dialog-title" }, title), ...fields, token, error, make("div", { class: "do" }, go, cancel));
  const box = make("dialog", { "aria-labelledby": "dialog-title" }, form);
  cancel.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    error.hidden = true;
    if (!token.hidden) kept(sessionStorage, "token", form.elements.token.value);
    try {
      await submit(form.elements);
      box.close();
    } catch (problem) {
      if (problem.status === 401) {
        token.hidden = false;
        form.elements.token.focus();
      }
      error.textContent = problem.status === 401 && !form.elements.token.value ? "A token is needed." : problem.message;
      error.hidden = false;
    } finally {
      go.disabled = false;
    }
  });
  document.body.append(box);
  box.showModal();
}

function silenceDialog({ title, button, matchers, duration, done, word }) {
  const lines = make("textarea", { name: "matchers", rows: String(Math.max(2, matchers.length)), spellcheck: "false", required: "" });
  lines.value = matchers.join("\n");
  const select = make("select", { name: "duration" });
  for (const [value, words] of Object.entries(DURATIONS)) select.append(new Option(words, value, false, value === duration));
  const author = make("input", { name: "author", autocomplete: "name", maxlength: "100" });
  author.value = kept(localStorage, "author");
  const comment = make("input", { name: "comment", maxlength: "500" });
  const fields = [
    field("Covers", lines, "one matcher a line, all must hold: NAME=VALUE, !=, =~, !~"),
    field("For", select),
    field("Your name", author),
    field("Comment", comment),
  ];
  dialog(title, button, fields, async (elements) => {
    kept(localStorage, "author", author.value);
    const list = lines.value.split("\n").map((line) => line.trim()).filter(Boolean);
    await ask("POST", "silences", { matchers: list, duration: elements.duration.value, author: author.value, comment: comment.value });
    say(`${word}.`);
    done();
  });
}

export function actions(done) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-acknowledge], button[data-silence], button[data-end]");
    if (!button) return;
    if (button.dataset.acknowledge) {
      silenceDialog({
        title: "Acknowledge: nobody is told of it again",
        button: "Acknowledge",
        matchers: [`id=${button.dataset.acknowledge}`],
        duration: "4h",
        word: "Acknowledged",
        done,
      });
    } else if (button.dataset.silence) {
      const { kind, component } = button.closest("[data-kind]").dataset;
      silenceDialog({
        title: "Silence",
        button: "Silence",
        matchers: [`kind=${kind}`, `component=${component}`],
        duration: "4h",
        word: "Silenced",
        done,
      });
    } else {
      const what = button.dataset.end.startsWith("silences") ? "silence" : "maintenance";
      dialog(`End this ${what} now?`, "End it", [], async () => {
        await ask("DELETE", button.dataset.end);
        say("Ended.");
        done();
      });
    }
  });
}
