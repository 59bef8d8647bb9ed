(() => {
  "use strict";
  const drawings = JSON.parse(document.getElementById("drawings").textContent);
  const tip = document.getElementById("tip");
  const views = {};

  // What is pointed at, as names and values. Text only: nothing of it is ever read as markup.
  function show(handler, event, item, value) {
    if (value === null || value === undefined || value === "") { tip.hidden = true; return; }
    const table = document.createElement("table");
    const pairs = typeof value === "object" ? Object.entries(value) : [["", value]];
    for (const [name, text] of pairs) {
      if (text === null || text === undefined || text === "" || text === "undefined" || text === "null") continue;
      const row = table.insertRow();
      row.insertCell().textContent = name;
      row.insertCell().textContent = text;
    }
    tip.replaceChildren(table);
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), gap = 14;
    let x = event.clientX + gap, y = event.clientY + gap;
    if (x + box.width > innerWidth - 6) x = Math.max(6, event.clientX - gap - box.width);
    if (y + box.height > innerHeight - 6) y = Math.max(6, event.clientY - gap - box.height);
    tip.style.transform = `translate(${Math.round(x)}px,${Math.round(y)}px)`;
  }

  function save(name, type, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function csv(rows) {
    const names = [...new Set(rows.flatMap(Object.keys))];
    const cell = (value) => {
      const text = value === null || value === undefined ? "" : String(value);
      return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [names.map(cell), ...rows.map((row) => names.map((name) => cell(row[name])))].map((row) => row.join(",") + "\n").join("");
  }

  // A saved drawing stands on white paper, in black.
  async function svg(key) {
    const text = await views[key].toSVG();
    return text.replace(/^<svg /, '<svg style="color:#1b1b1f;background:#fff" ');
  }

  const drawn = Object.entries(drawings).map(async ([key, drawing]) => {
    const container = document.getElementById(`chart-${key}`);
    const view = new vega.View(vega.parse(drawing.spec), {renderer: "svg", container, hover: true, logLevel: vega.Warn});
    views[key] = view.tooltip(show);
    await view.runAsync();
  });

  document.addEventListener("click", async (event) => {
    const kind = event.target.dataset && event.target.dataset.save, key = event.target.dataset && event.target.dataset.of;
    if (kind === "csv") save(`${key}.csv`, "text/csv", csv(drawings[key].rows));
    if (kind === "svg") save(`${key}.svg`, "image/svg+xml", await svg(key));
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  window.nhalf = {views, csv: (key) => csv(drawings[key].rows), svg, ready: Promise.all(drawn).then(() => true)};
})();
