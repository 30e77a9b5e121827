// Acknowledging and silencing from the page, over the API: one incident, or the selected ones.
import { ask, dialog, field, make, person } from "./dialog.js";
import { status } from "./live.js";

const DURATIONS = { "1h": "1 hour", "4h": "4 hours", "12h": "12 hours", "1d": "1 day", "3d": "3 days", "7d": "1 week" };
const DURATION = "4h"; // of a silence, unless another is chosen
const IDS = 15; // ids of one matcher: a value has at most 256 characters
const PREVIEW = 300; // milliseconds after the last key before the preview is asked for
const COMMON = ["kind", "node", "leaf", "rail"]; // what selected incidents may have in common, the narrowest places first

const acknowledgement = (id) => `incidents/${encodeURIComponent(id)}/acknowledgement`;
const incidents = (number) => `${number} open incident${number === 1 ? "" : "s"}`;

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

// A line with what a change would cover now. `look` asks the server and returns the words.
function preview(look) {
  const line = make("p", { class: "covers", role: "status" });
  let timer = 0;
  let turn = 0;
  async function update() {
    const mine = ++turn;
    try {
      const words = await look();
      if (mine === turn) line.textContent = words;
    } catch (problem) {
      if (mine === turn) line.textContent = problem.status === 401 ? "The preview needs the token." : problem.message;
    }
  }
  function later() {
    clearTimeout(timer);
    timer = setTimeout(update, PREVIEW);
  }
  update();
  return { line, later };
}

function acknowledgeAll(rows, done) {
  const ids = rows.map(({ id }) => id);
  const { fields, values } = person(true);
  const text = "Stops reminders and escalation until each incident is resolved or becomes worse.";
  const shown = preview(async () => {
    const { covers } = await ask("POST", "acknowledgements", { incidents: ids, preview: true });
    return `Covers ${incidents(covers)} now${covers < ids.length ? `; ${ids.length - covers} of the selected are resolved` : ""}.`;
  });
  dialog(`Acknowledge ${ids.length} incidents`, text, "Acknowledge", [...fields, shown.line], async () => {
    const { covers } = await ask("POST", "acknowledgements", { incidents: ids, ...values() });
    status(`${incidents(covers)} acknowledged.`);
    done();
  });
}

// Proposals for one silence of several incidents: exactly these, or what they have in common.
function proposals(rows) {
  const exact = [];
  for (let at = 0; at < rows.length; at += IDS) exact.push(`id=~${rows.slice(at, at + IDS).map(({ id }) => id).join("|")}`);
  const found = [["only these incidents", exact.join("\n\n")]];
  const common = COMMON.filter((name) => rows[0][name] && rows.every((row) => row[name] === rows[0][name]));
  const matchers = common.map((name) => `${name}=${rows[0][name]}`);
  for (const matcher of matchers) found.push([`all with ${matcher}`, matcher]);
  if (matchers.length > 1) found.push([`all with ${matchers.join(" and ")}`, matchers.join("\n")]);
  return found;
}

// Each part of the text between empty lines is one silence.
const silences = (text) =>
  text
    .split(/\n\s*\n/)
    .map((part) => part.split("\n").map((line) => line.trim()).filter(Boolean))
    .filter((matchers) => matchers.length);

function silence(rows, offered, done) {
  const lines = make("textarea", { name: "matchers", rows: "3", spellcheck: "false", required: "" });
  const choice = make("select", { name: "proposal" });
  for (const [words, matchers] of offered) choice.append(new Option(words, matchers));
  lines.value = offered[0][1];
  const select = make("select", { name: "duration" });
  for (const [value, words] of Object.entries(DURATIONS)) select.append(new Option(words, value, false, value === DURATION));
  const { fields, values } = person(false);
  const covers = field("Matchers", lines, "One matcher per line, all must match: NAME=VALUE, !=, =~, !~. An empty line begins another silence.");
  const text = "No notifications for matching incidents, even when they become worse.";
  const shown = preview(async () => {
    const ids = new Set();
    let more = 0;
    for (const matchers of silences(lines.value)) {
      const found = await ask("POST", "silences", { matchers, duration: select.value, preview: true });
      for (const id of found.incidents) ids.add(id);
      more += found.covers - found.incidents.length;
    }
    const others = [...ids].filter((id) => !rows.some((row) => row.id === id)).length + more;
    return `Covers ${incidents(ids.size + more)} now${others ? `, ${others} of them not selected` : ""}.`;
  });
  lines.addEventListener("input", shown.later);
  choice.addEventListener("change", () => {
    lines.value = choice.value;
    shown.later();
  });
  const proposal = offered.length > 1 ? [field("Covers", choice)] : [];
  const title = rows.length > 1 ? `Silence ${rows.length} incidents` : "Silence";
  dialog(title, text, "Silence", [...proposal, covers, shown.line, field("For", select), ...fields], async () => {
    for (const matchers of silences(lines.value)) await ask("POST", "silences", { matchers, duration: select.value, ...values() });
    status("Silenced.");
    done();
  });
}

function silenceOne(row, done) {
  silence([row], [["", `kind=${row.kind}\ncomponent=${row.component}`]], done);
}

function end(path, done) {
  const what = path.startsWith("silences") ? "silence" : "maintenance";
  dialog(`End this ${what} now?`, "Notifications for the incidents that it covers resume.", "End now", [], async () => {
    await ask("DELETE", path);
    status("Ended.");
    done();
  });
}

export function actions(done, selection) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const asked = button?.dataset ?? {};
    if (asked.acknowledge) acknowledge(asked.acknowledge, done);
    else if (asked.withdraw) withdraw(asked.withdraw, done);
    else if (asked.silence) silenceOne({ ...button.closest("[data-kind]").dataset }, done);
    else if (asked.end) end(asked.end, done);
    else if (asked.bulk === "none") selection.clear();
    else if (asked.bulk === "acknowledge") acknowledgeAll(selection.rows(), done);
    else if (asked.bulk === "silence") silence(selection.rows(), proposals(selection.rows()), done);
  });
}
