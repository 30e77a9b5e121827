// Dialogs that change something through the API: fields, token, errors.

export function kept(store, name, value) {
  try {
    if (value === undefined) return store.getItem(name) || "";
    store.setItem(name, value);
  } catch {
    return ""; // storage can be forbidden
  }
  return value;
}

// The token is kept in sessionStorage only.
export async function ask(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const token = kept(sessionStorage, "token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(`api/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
  const reply = await answer.json().catch(() => ({}));
  if (answer.ok) return reply;
  const error = new Error(reply.error || `HTTP ${answer.status}`);
  error.status = answer.status;
  throw error;
}

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function field(label, control, hint = "") {
  return make("label", { class: "field" }, make("span", {}, label), control, ...(hint ? [make("small", {}, hint)] : []));
}

// `text` is the description that screen readers read with the title.
export function dialog(title, text, button, fields, submit) {
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
  return box;
}

// The fields for name and comment, and their values. The name is remembered.
export function person(named) {
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
