// Acknowledging and silencing from the page, over the API.
import { status } from "./live.js";

const DURATIONS = { "1h": "1 hour", "4h": "4 hours", "12h": "12 hours", "1d": "1 day", "3d": "3 days", "7d": "1 week" };
const DURATION = "4h"; // of a silence, unless another is chosen

function kept(store, name, value) {
  try {
    if (value === undefined) return store.getItem(name) || "";
    store.setItem(name, value);
  } catch {
    return ""; // storage can be forbidden
  }
  return value;
}

// The token is kept in sessionStorage only.
async function ask(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const token = kept(sessionStorage, "token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(`api/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (answer.ok) return;
  const reply = await answer.json().catch(() => ({}));
  const error = new Error(reply.error || `HTTP ${answer.status}`);
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

// `text` is the description that screen readers read with the title.
function dialog(title, text, button, fields, submit) {
  const error = make("p", { class: "error", role: "alert" });
  error.hidden = true;
  const token = field("Token", make("input", { name: "token", type: "password", autocomplete: "off" }), "The server requires a token for changes.");
  token.hidden = true;
  const cancel = make("button", { type: "button", class: "button" }, "Cancel");
  const go = make("button", { type: "submit", class: "button strong" }, button);
  const head = [make("h2", { id: "dialog-title" }, title), make("p", { id: "dialog-text", class: "note" }, text)];
  const form = make("form", { method: "dialog" }, ...head, ...fields, token, error, make("div", { class: "do" }, go, cancel));
  const box = make("dialog", { "aria-labelledby": "dialog-title", "aria-describedby": "dialog-text" }, form);
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
      error.textContent = problem.status === 401 && !form.elements.token.value ? "A token is required." : problem.message;
      error.hidden = false;
    } finally {
      go.disabled = false;
    }
  });
  document.body.append(box);
  box.showModal();
}

// The fields for name and comment, and their values. The name is remembered.
function person(named) {
  const author = make("input", { name: "author", autocomplete: "name", maxlength: "100" });
  author.required = named;
  author.value = kept(localStorage, "author");
  const comment = make("input", { name: "comment", maxlength: "500" });
  function values() {
    kept(localStorage, "author", author.value);
    return { author: author.value, comment: comment.value };
  }
  return { fields: [field("Your name", author), field("Comment", comment)], values };
}

const acknowledgement = (id) => `incidents/${encodeURIComponent(id)}/acknowledgement`;

function acknowledge(id, done) {
  const { fields, values } = person(true);
  const text = "Stops reminders and escalation until the incident is resolved or becomes worse.";
  dialog("Acknowledge", text, "Acknowledge", fields, async () => {
    await ask("POST", acknowledgement(id), values());
    status("Acknowledged.");
    done();
  });
}

function withdraw(id, done) {
  const text = "Reminders and escalation resume.";
  dialog("Remove the acknowledgement?", text, "Remove", [], async () => {
    await ask("DELETE", acknowledgement(id));
    status("Acknowledgement removed.");
    done();
  });
}

function silence({ kind, component }, done) {
  const matchers = [`kind=${kind}`, `component=${component}`];
  const lines = make("textarea", { name: "matchers", rows: String(matchers.length), spellcheck: "false", required: "" });
  lines.value = matchers.join("\n");
  const select = make("select", { name: "duration" });
  for (const [value, words] of Object.entries(DURATIONS)) select.append(new Option(words, value, false, value === DURATION));
  const { fields, values } = person(false);
  const covers = field("Covers", lines, "one matcher per line, all must match: NAME=VALUE, !=, =~, !~");
  const text = "No notifications for matching incidents, even when they become worse.";
  dialog("Silence", text, "Silence", [covers, field("For", select), ...fields], async () => {
    const list = lines.value.split("\n").map((line) => line.trim()).filter(Boolean);
    await ask("POST", "silences", { matchers: list, duration: select.value, ...values() });
    status("Silenced.");
    done();
  });
}

function end(path, done) {
  const what = path.startsWith("silences") ? "silence" : "maintenance";
  dialog(`End this ${what} now?`, "Notifications for the incidents that it covers resume.", "End now", [], async () => {
    await ask("DELETE", path);
    status("Ended.");
    done();
  });
}

export function actions(done) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const asked = button?.dataset ?? {};
    if (asked.acknowledge) acknowledge(asked.acknowledge, done);
    else if (asked.withdraw) withdraw(asked.withdraw, done);
    else if (asked.silence) silence(button.closest("[data-kind]").dataset, done);
    else if (asked.end) end(asked.end, done);
  });
}
