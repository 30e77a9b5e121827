// The rows of the table that are selected, by incident id; kept while the table is made anew.
export function selecting(live) {
  const chosen = new Map(); // id -> attributes of its row

  const boxes = (root) => [...root.querySelectorAll("tr.incident .box input")];
  const id = (box) => box.closest("tr").dataset.id;

  function show() {
    const bar = live.querySelector("#bulk");
    if (!bar) return;
    bar.hidden = !chosen.size;
    bar.querySelector("b").textContent = `${chosen.size} selected`;
    for (const box of boxes(live)) box.checked = chosen.has(id(box));
    for (const group of live.querySelectorAll("[data-group]")) {
      const inside = boxes(group.dataset.group === "all" ? group.closest("table") : group.closest("tbody"));
      const number = inside.filter((box) => box.checked).length;
      group.checked = number === inside.length && number > 0;
      group.indeterminate = number > 0 && number < inside.length;
    }
  }

  // Incidents that are no longer in the list are no longer selected.
  function refresh() {
    const there = new Map(boxes(live).map((box) => [id(box), { ...box.closest("tr").dataset }]));
    for (const one of [...chosen.keys()]) {
      if (there.has(one)) chosen.set(one, there.get(one));
      else chosen.delete(one);
    }
    show();
  }

  live.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.closest(".box")) return;
    const group = box.dataset.group;
    const touched = group === undefined ? [box] : boxes(group === "all" ? box.closest("table") : box.closest("tbody"));
    for (const one of touched) {
      if (box.checked) chosen.set(id(one), { ...one.closest("tr").dataset });
      else chosen.delete(id(one));
    }
    show();
  });

  function clear() {
    chosen.clear();
    show();
    live.querySelector("[data-group=all]")?.focus();
  }

  return { refresh, clear, rows: () => [...chosen.values()] };
}
