// Makes one element like another that was parsed from the server's HTML, touching only what differs: focus,
// scrolling, selected text and opened details stay. Children are matched by id where they have one, else by place.
export function parse(html) {
  return new DOMParser().parseFromString(html, "text/html").body;
}

export function morph(here, there) {
  const named = new Map();
  for (const child of here.children) if (child.id) named.set(child.id, child);
  let at = here.firstChild;
  for (const wanted of [...there.childNodes]) {
    let found = wanted.id ? named.get(wanted.id) : at;
    if (found && !wanted.id && found.id) found = null; // an element with an id matches only that id
    if (found && alike(found, wanted)) {
      if (found === at) at = at.nextSibling;
      else here.insertBefore(found, at);
      update(found, wanted);
    } else {
      here.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

function update(here, there) {
  if (here.nodeType !== Node.ELEMENT_NODE) {
    if (here.nodeValue !== there.nodeValue) here.nodeValue = there.nodeValue;
    return;
  }
  for (const { name, value } of [...there.attributes]) {
    if (here.getAttribute(name) !== value) here.setAttribute(name, value);
  }
  for (const { name } of [...here.attributes]) {
    if (!there.hasAttribute(name) && !(name === "open" && here.nodeName === "DETAILS")) here.removeAttribute(name);
  }
  if (here.nodeName === "TIME" && here.dataset.form) return; // times.js writes its text
  if (here.dataset.history !== undefined) return; // drawn by chart.js
  morph(here, there);
}
