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

  // A figure with sliders: times are read off straight lines between the nodes that the page holds.
  function cell(nodes, at) {
    let low = nodes.findLastIndex((node) => node <= at);
    low = Math.min(Math.max(low, 0), nodes.length - 2);
    return [low, (at - nodes[low]) / (nodes[low + 1] - nodes[low])];
  }
  function read(grid, batch, latency, byte) {
    const [[i, x], [j, y], [k, z]] = [batch, latency, byte].map((at, axis) => cell(grid.nodes[axis], at));
    const [, wide, deep] = grid.nodes.map((nodes) => nodes.length);
    let found = 0;
    for (const [a, u] of [[0, 1 - x], [1, x]]) for (const [b, v] of [[0, 1 - y], [1, y]]) for (const [c, w] of [[0, 1 - z], [1, z]])
      if (u * v * w) found += u * v * w * grid.times_s[((i + a) * wide + j + b) * deep + k + c];
    return found;
  }
  const three = (x) => x >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3)));
  const time = (x) => x >= 1 ? three(x) + " s" : x >= 1e-3 ? three(1e3 * x) + " ms" : three(1e6 * x) + " us";
  function moved(key) {
    const given = {};
    for (const slider of document.querySelectorAll(`[data-slider][data-of="${key}"]`)) {
      const value = 2 ** slider.value;
      given[slider.dataset.slider] = slider.dataset.slider === "batch" ? Math.round(value) : value;
      slider.previousElementSibling.textContent = three(given[slider.dataset.slider]);
    }
    return drawings[key].grids.map((grid) => {
      const time_s = read(grid, given.batch, given.latency, 1 / given.bandwidth);
      const [place, part] = cell(grid.nodes[0], given.batch);
      const fits = grid.fits[place] && (part === 0 || grid.fits[place + 1]);
      return {layout: grid.layout, time_s, catalogue_s: read(grid, given.batch, 1, 1), room_s: 1.4 * time_s, shade: fits ? 1 : 0.3,
        label: `${time(time_s)}, ${three(1 / time_s)} tokens/s per user`};
    });
  }
  document.addEventListener("input", (event) => {
    const key = event.target.dataset.slider && event.target.dataset.of;
    if (!key) return;
    drawings[key].rows = moved(key).map(({layout, time_s, catalogue_s}) => ({layout, time_s, catalogue_s}));
    views[key].data("moved", moved(key)).runAsync();
  });

  document.addEventListener("click", async (event) => {
    const kind = event.target.dataset && event.target.dataset.save, key = event.target.dataset && event.target.dataset.of;
    if (kind === "csv") save(`${key}.csv`, "text/csv", csv(drawings[key].rows));
    if (kind === "svg") save(`${key}.svg`, "image/svg+xml", await svg(key));
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, {passive: true});
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // What only some readers want is drawn open, where its width is known, and folded then; paper holds everything.
  const folded = [...document.querySelectorAll("details.expert")];
  const unfold = (open) => { for (const each of folded) each.open = open; };
  addEventListener("beforeprint", () => unfold(true));
  addEventListener("afterprint", () => unfold(false));
  document.addEventListener("toggle", (event) => { if (event.target.open) dispatchEvent(new Event("resize")); }, true);

  window.nhalf = {views, csv: (key) => csv(drawings[key].rows), svg, ready: Promise.all(drawn).then(() => { unfold(false); return true; })};
})();
