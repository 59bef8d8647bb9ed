"use strict";
// The page: its state is the URL; a change of a control asks the server for a panel and draws it.
const $ = (id) => document.getElementById(id);
const form = $("controls");
const COLOURS = {weights: "#56B4E9", experts: "#0072B2", kv: "#009E73", compute: "#999999", launch: "#CC79A7",
  collective_fixed: "#D55E00", collective_transfer: "#E69F00", hand_over: "#8c6bb1", prefill: "#b3a369"};
const NAMES = {weights: "weights", experts: "expert weights", kv: "KV cache", compute: "arithmetic", launch: "per-layer overhead",
  collective_fixed: "all-reduce latency", collective_transfer: "all-reduce bytes", hand_over: "pipeline transfer", prefill: "prefill interference"};
const BINDING = {latency: "collective_fixed", bandwidth: "collective_transfer", "hand-over": "hand_over"};
const TABS = {step: "Step", plan: "Plan", buy: "Buy", crossover: "Crossover", pictures: "Eight pictures", simulate: "Simulate", fit: "Fit", doctor: "Doctor", trace: "Trace"};
const TITLES = {...TABS, pictures: "The interconnect, in eight pictures"};
const FILES = {fit: "A log of nccl-tests, OSU, perftest or another tool: latency, bandwidth, and the size where both count alike.",
  doctor: "A log of nccl-tests or another tool: is it normal, and what is likely wrong where it is not.",
  trace: "A trace of PyTorch's profiler or of Nsight: what communication costs, and who waits for whom."};
const EXTRA = {plan: "--gpus 8", simulate: "all-reduce --ranks 8 --size 64KiB --latency 5us --bandwidth 100GB/s --algorithm ring"};
const DEGREES = ["tp", "pp", "ep", "attention_dp", "batch"];
let names = {}, base = {}, tab = "step", asked = 0, panel = null, plan = [], moments = null, playing = 0;

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[c]));
const three = (x) => x >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3)));
const scaled = (x, units) => { for (const [factor, unit] of units) if (x >= factor) return three(x / factor) + " " + unit; return x === 0 ? "0" : x.toExponential(1); };
const time = (x) => scaled(x, [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]);
const rate = (x) => scaled(x, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]]);
const bytes = (x) => scaled(x, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
const shown = (path, x) => path.endsWith("_s") && !path.endsWith("per_s") ? time(x) : rate(x);
const written = (path, x) => path.endsWith("latency_s") ? (1e6 * x).toPrecision(4) + "us" : (x / 1e9).toPrecision(5) + "GB/s";

// What the controls say, as the parameters of a request; a slider that stands at the catalogue's value says nothing.
function parameters() {
  const found = new URLSearchParams();
  for (const name of ["model", "on", "engine", "weights", "tp"]) if (form[name].value) found.set(name, form[name].value);
  const batch = Math.round(2 ** form.batch.value);
  found.set("batch", batch === 1 ? "1" : "1," + batch);
  found.set("context", Math.round(2 ** form.context.value));
  for (const slider of form.querySelectorAll("[data-path]"))
    if (Number(slider.value) !== 0 && base[slider.dataset.path])
      found.append("set", slider.dataset.path + "=" + written(slider.dataset.path, base[slider.dataset.path] * 2 ** slider.value));
  for (const name of ["fuse_norm", "two_batch_overlap"]) if (form[name].checked) found.set(name, "true");
  if (form.quantised_all_reduce.checked) found.set("quantised_all_reduce", "fp8");
  return found;
}
// The field of a tab holds words as on the command line, an argument without a flag first.
const field = () => $("extra").querySelector("input");
function extra() {
  const [first, ...flags] = (" " + field().value.trim()).split(" --");
  const found = new URLSearchParams(first.trim() ? {op: first.trim()} : {});
  for (const each of flags) {
    const [name, ...value] = each.trim().split(/[\s=]+/);
    if (name) found.append(name.replaceAll("-", "_"), value.join(" ").replace(/^'(.*)'$/, "$1") || "true");
  }
  return found;
}
const flagged = (found) => [...found].map(([name, value]) => name === "op" ? value : `--${name.replaceAll("_", "-")}${value === "true" ? "" : " " + (/\s/.test(value) ? `'${value}'` : value)}`).join(" ");
// What a tab asks for: that, without what the command finds itself, and with what stands in its own field.
function asking() {
  const given = tab === "simulate" ? new URLSearchParams() : parameters();
  const others = [...given.keys()].filter((name) => !["model", "on"].includes(name));
  const left = {plan: ["tp", "batch"], buy: ["tp"], pictures: others, crossover: others};
  for (const name of left[tab] ?? []) given.delete(name);
  if (tab !== "step") {
    const own = extra();
    for (const name of own.keys()) given.delete(name);
    for (const [name, value] of own) given.append(name, value);
  }
  return given;
}
function command() {
  if (tab in FILES) return `nhalf ${tab} FILE`;
  if (tab === "pictures") return `nhalf lab --model ${form.model.value} --on ${form.on.value} -o pictures.html`;
  const given = asking(), first = tab === "simulate" ? "op" : "model";
  const words = ["nhalf", tab === "step" ? "decode" : tab, given.get(first)];
  for (const [name, value] of given) if (name !== first)
    words.push("--" + name.replaceAll("_", "-"), ...(value === "true" ? [] : [/^[\w.,:=+-]+$/.test(value) ? value : "'" + value + "'"]));
  return words.join(" ");
}
// The URL holds what the controls say, sliders as their exponents: opening it again shows the same page.
function keep() {
  const state = new URLSearchParams({tab});
  for (const field of form.elements) if (field.name) state.set(field.name, field.type === "checkbox" ? (field.checked ? "1" : "") : field.value);
  for (const slider of form.querySelectorAll("[data-path]")) if (Number(slider.value)) state.set(slider.dataset.path, slider.value);
  history.replaceState(null, "", "?" + state);
}
function restore() {
  const state = new URLSearchParams(location.search);
  const first = {model: "llama-3.1-70b", on: "h100-sxm", engine: "vllm", weights: "fp8", tp: "1,2,4,8,16", batch: "0", context: "10"};
  for (const field of form.elements) if (field.name) {
    const value = state.get(field.name) ?? first[field.name] ?? "";
    if (field.type === "checkbox") field.checked = value === "1"; else field.value = value;
  }
  for (const slider of form.querySelectorAll("[data-path]")) slider.value = state.get(slider.dataset.path) ?? 0;
  tab = state.get("tab") in TABS ? state.get("tab") : "step";
}
async function fetched(url, options) {
  const answer = await fetch(url, options);
  const found = await answer.json();
  if (found.error) throw new Error(found.error);
  return found;
}
function label() {
  form.batch.closest("label").querySelector(".value").textContent = Math.round(2 ** form.batch.value);
  form.context.closest("label").querySelector(".value").textContent = Math.round(2 ** form.context.value).toLocaleString("en");
  for (const slider of form.querySelectorAll("[data-path]")) {
    const value = base[slider.dataset.path];
    slider.disabled = !value;
    slider.closest("label").querySelector(".value").textContent = value ? shown(slider.dataset.path, value * 2 ** slider.value) : "none";
  }
}
async function update() {
  const mine = ++asked;
  keep();
  label();
  $("step").hidden = tab !== "step";
  $("other").hidden = tab === "step";
  document.body.dataset.tab = tab;
  for (const button of $("tabs").children) button.toggleAttribute("aria-current", button.dataset.tab === tab);
  if ($("tabs").scrollWidth > $("tabs").clientWidth) document.querySelector("[aria-current]").scrollIntoView({inline: "center", block: "nearest"});
  try {
    if (tab !== "step") return await screen(mine);
    const found = await fetched("panel?" + asking());
    if (mine !== asked) return;
    panel = found;
    $("problem").textContent = found.warnings.join(" ");
    draw(found);
  } catch (error) { if (mine === asked) $("problem").textContent = error.message; }
}
async function screen(mine) {
  const file = tab in FILES;
  $("drop").hidden = !file;
  $("fitted").hidden = true;
  $("pictures").hidden = tab !== "pictures";
  $("screen").hidden = tab === "pictures";
  $("extra").hidden = file || ["crossover", "pictures"].includes(tab);
  $("verdict").textContent = TITLES[tab];
  $("range").textContent = $("crossover").textContent = $("problem").textContent = "";
  $("wanted").textContent = FILES[tab] ?? "";
  field().placeholder = tab === "buy" ? "--option hbm=x1.5" : "";
  $("screen").textContent = file ? "What is read here stays on this machine." : "...";
  if (file) { $("layouts").hidden = $("played").hidden = true; return; }
  $("layouts").hidden = tab !== "plan" || !plan.length;
  if (tab === "plan") layouts(mine);
  $("played").hidden = tab !== "simulate";
  if (tab === "simulate") timeline(mine);
  if (tab === "pictures") {
    await fetched("panel?" + asking());  // what is wrong is told here
    const url = "pictures?" + asking();
    if (mine === asked && $("pictures").getAttribute("src") !== url) $("pictures").src = url;
    return;
  }
  const found = await fetched("screen/" + tab + "?" + asking());
  if (mine === asked) answered(found);
}
// The first line of a screen is its verdict.
function answered(found) {
  const [first, ...rest] = found.text.split("\n");
  $("verdict").textContent = first;
  $("problem").textContent = [...found.warnings, found.problem].filter(Boolean).join(" ");
  $("screen").textContent = rest.join("\n").trimStart();
}
// The layouts of a plan: a click puts one into the options, where "copy as command" finds it; without it all are back.
async function layouts(mine) {
  if (!extra().has("tp")) {
    try {
      const found = await fetched("api/plan?" + asking());
      if (mine !== asked) return;
      plan = found.rows.filter((row) => row.fits_memory !== "no" && row.cp === 1).slice(0, 300);
    } catch { plan = []; }
  }
  $("layouts").hidden = !plan.length;
  points(extra());
}
function points(own) {
  if (!plan.length) return;
  const at = (row, key) => row["tokens_per_s_per_" + key];
  const ends = (key) => [Math.min(...plan.map((row) => at(row, key))) / 1.1, Math.max(...plan.map((row) => at(row, key))) * 1.1];
  const [left, right] = ends("user"), [low, high] = ends("gpu");
  const end = wide(), across = (value) => log(value, left, right, 60, end - 10), up = (value) => log(value, high, low, 22, 250);
  const x = (row) => across(at(row, "user")), y = (row) => up(at(row, "gpu"));
  const chosen = (row) => own.has("tp") && DEGREES.every((key) => own.get(key) === String(row[key]));
  const dots = plan.map((row, i) => `<circle data-place="${i}" tabindex="0" role="button" cx="${x(row)}" cy="${y(row)}" r="${row.pareto ? 6 : 4}" class="${row.pareto ? "" : "behind"}${chosen(row) ? " chosen" : ""}" ` +
    `aria-label="${escaped(row.layout)}, batch ${row.batch}"><title>${escaped(row.layout)}, batch ${row.batch}: ${three(at(row, "user"))} tokens/s per user, ${three(at(row, "gpu"))} per GPU${row.meets === "no" ? ", misses a limit" : ""}</title></circle>`).join("");
  const lines = axes(ticks(left, right, 6, three), ticks(low, high, 6, three), across, up, [60, end - 10, 22, 250]);
  $("points").innerHTML = svg(end, 290, `${lines}<text x="4" y="12">tokens/s per GPU</text><text x="${end - 10}" y="284" text-anchor="end">tokens/s per user</text>${dots}`,
    `${plan.length} layouts and batches`);
}
function chose(event) {
  const row = plan[event.target.dataset?.place];
  if (!row) return;
  const own = extra();
  const same = own.has("tp") && DEGREES.every((key) => own.get(key) === String(row[key]));
  for (const key of DEGREES) if (same) own.delete(key); else own.set(key, row[key]);
  field().value = flagged(own);
  update();
}
// The messages of a simulated collective: drawn pale, and in full as far as the clock has come.
async function timeline(mine) {
  try {
    const found = await fetched("timeline?" + asking());
    if (mine !== asked) return;
    moments = found;
  } catch { if (mine === asked) { moments = null; $("played").hidden = true; } return; }
  const {ranks, end_s, messages} = moments, high = Math.max(5, Math.min(26, 420 / ranks)), every = Math.ceil(14 / high);
  const end = wide(), x = (t) => 60 + (end - 70) * t / end_s, bottom = 10 + ranks * high;
  const bar = (rank, half, begin, end, fill, says) => `<rect x="${x(begin).toFixed(2)}" y="${(8 + rank * high + half * high * 0.45).toFixed(2)}" width="${Math.max(x(end) - x(begin), 0.6).toFixed(2)}" height="${(high * 0.42).toFixed(2)}" fill="${fill}" stroke="var(--card)" stroke-width="0.4"><title>${says}</title></rect>`;
  const bars = messages.map(([from, to, begin, end, size]) => {
    const says = `rank ${from} to rank ${to}: ${bytes(size)}, ${time(begin)} to ${time(end)}`;
    return bar(from, 0, begin, end, "#0072B2", says) + bar(to, 1, begin, end, "#E69F00", says);
  }).join("");
  const names = Array.from({length: Math.ceil(ranks / every)}, (_, i) => `<text x="54" y="${8 + i * every * high + high * 0.6}" text-anchor="end">rank ${i * every}</text>`).join("");
  $("timeline").innerHTML = svg(end, bottom + 22, `${names}<g opacity="0.15">${bars}</g><clipPath id="until"><rect x="0" y="0" width="${end}" height="${bottom}"/></clipPath><g clip-path="url(#until)">${bars}</g>` +
    `<line id="now" y1="4" y2="${bottom}" stroke="#D55E00" stroke-width="1.5"/><text x="60" y="${bottom + 16}">0</text><text x="${end - 10}" y="${bottom + 16}" text-anchor="end">${time(end_s)}</text>`,
    `${moments.algorithm}: ${messages.length} messages of ${ranks} ranks in ${time(end_s)}`);
  cancelAnimationFrame(playing);
  at(1);
}
function at(share) {
  $("clock").value = share;
  $("moment").textContent = time(share * moments.end_s);
  const end = $("timeline").querySelector("svg").viewBox.baseVal.width, x = 60 + (end - 70) * share;
  document.querySelector("#until rect").setAttribute("width", share < 1 ? x : end);
  for (const end of ["x1", "x2"]) $("now").setAttribute(end, x);
}
function play() {
  cancelAnimationFrame(playing);
  const began = performance.now();
  const step = (now) => { const share = Math.min(1, (now - began) / 5000); at(share); if (share < 1 && tab === "simulate") playing = requestAnimationFrame(step); };
  playing = requestAnimationFrame(step);
}
async function dropped(file) {
  if (!file) return;
  $("verdict").textContent = TITLES[tab];
  $("problem").textContent = "";
  $("screen").textContent = "Reading " + file.name + " ...";
  $("fitted").hidden = true;
  try {
    const found = await fetched("file/" + tab, {method: "POST", body: file});
    fitted(found.curves);
    answered(found);
  } catch (error) { $("problem").textContent = error.message; $("screen").textContent = ""; }
}
function fitted(curves) {
  $("fitted").hidden = !curves.length;
  if (!curves.length) return;
  const sizes = curves.flatMap((each) => each.sizes_bytes), times = curves.flatMap((each) => each.times_s);
  const [left, right, low, high] = [Math.min(...sizes), Math.max(...sizes), Math.min(...times) / 1.3, Math.max(...times) * 1.3];
  const end = wide(), x = (n) => log(n, left, right, 60, end - 10), y = (t) => log(Math.min(Math.max(t, low), high), high, low, 14, 240);
  const colours = Object.values(COLOURS);
  const drawn = curves.map((each, i) => {
    const at = each.sizes_bytes.map((n, j) => [x(n), y(each.times_s[j])]), fill = colours[(i + 5) % colours.length];
    const line = each.latency_s !== null && each.bandwidth_bytes_per_s ? Array.from({length: 60}, (_, j) => left * (right / left) ** (j / 59)).map((n) => `${x(n)},${y(each.latency_s + n / each.bandwidth_bytes_per_s)}`).join(" ") : "";
    return `<polyline points="${line}" fill="none" stroke="${fill}" stroke-dasharray="1 4" stroke-width="1.5"/><polyline points="${at.join(" ")}" fill="none" stroke="${fill}" stroke-width="1.5"/>` +
      at.map(([cx, cy], j) => `<circle cx="${cx}" cy="${cy}" r="3" fill="${fill}"><title>${escaped(each.name)}: ${bytes(each.sizes_bytes[j])}, ${time(each.times_s[j])}</title></circle>`).join("");
  }).join("");
  const key = curves.map((each, i) => `<span><i style="background:${colours[(i + 5) % colours.length]}"></i>${escaped(each.name)}</span>`).join("");
  $("curves").innerHTML = `<div class="key">${key}</div>` + svg(end, 268, `${axes(binary(left, right), ticks(low, high, 6, time), x, y, [60, end - 10, 14, 240])}${drawn}`, curves.map((each) => each.name).join(", "));
}
// ---- drawing
// A figure across the page is drawn as wide as that is, so that its words are as large as the page's.
const wide = () => Math.max(320, $("other").clientWidth - 30);
// Values of 1, 2 and 5 between two ends, as many as there is room for.
function ticks(low, high, most, shown) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) for (const each of [1, 2, 5]) { const value = each * 10 ** power; if (value >= low && value <= high) all.push(value); }
  const few = all.length > most ? all.filter((value) => /^1/.test(value.toExponential(0))) : all;
  return few.filter((_, i) => i % Math.ceil(few.length / most) === 0).map((value) => [value, shown(value)]);
}
// Lines and words of the axes of a figure whose scales are logarithms.
const axes = (across, up, x, y, [left, right, top, bottom]) =>
  up.map(([value, says]) => `<line x1="${left}" x2="${right}" y1="${y(value)}" y2="${y(value)}" class="axis"/><text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${says}</text>`).join("") +
  across.map(([value, says]) => `<line x1="${x(value)}" x2="${x(value)}" y1="${top}" y2="${bottom}" class="axis"/><text x="${x(value)}" y="${bottom + 16}" text-anchor="middle">${says}</text>`).join("");
const binary = (low, high) => [0, 1, 2, 3, 4, 5, 6, 7].map((i) => 2 ** (5 * i)).filter((value) => value >= low && value <= high).map((value) => [value, bytes(value)]);
const svg = (width, height, inner, says) => `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(says)}">${inner}</svg>`;
const log = (value, low, high, from, to) => from + (to - from) * Math.log(value / low) / Math.log(high / low || 2);
function draw(found) {
  const batch = found.best.at(-1).batch, rows = found.rows.filter((row) => row.batch === batch), best = found.best.at(-1);
  const top = rows.find((row) => row.layout === best.fastest);
  $("verdict").textContent = top ? `${top.layout} is fastest: ${three(1e3 * top.tpot_s)} ms per token, ${three(top.tokens_per_s_per_user)} tokens/s per user.` : "No layout fits in memory.";
  $("range").textContent = top ? `80 % range: ${three(1e3 * top.tpot_low_s)} to ${three(1e3 * top.tpot_high_s)} ms, at batch ${three(batch)}. ` + (best.layouts.length > 1 ? `Within the model's error: ${best.layouts.filter((x) => x !== top.layout).join(", ")}.` : "") : "";
  $("crossover").textContent = found.lines.join(" ");
  curve(rows, top);
  bars(rows, top);
  reduce(found.all_reduce, batch);
  map(found.map, batch);
  $("advice").innerHTML = found.best.map((each) => savings(each, found.in_node)).join("");
  numbers(found.rows);
  $("assumed").innerHTML = found.defaults.map((each) => `<li>${escaped(each.flag)} ${escaped(each.value)}: ${escaped(each.reason)}</li>`).join("");
}
function curve(rows, top) {
  const high = Math.max(...rows.map((row) => row.tpot_high_s)), low = Math.min(...rows.map((row) => row.tpot_low_s));
  const x = (i) => 50 + 340 * (i + 0.5) / rows.length, y = (v) => log(v, high * 1.05, low * 0.95, 20, 178);
  const line = rows.map((row, i) => `${x(i)},${y(row.tpot_s)}`).join(" ");
  const marks = rows.map((row, i) => `<line x1="${x(i)}" x2="${x(i)}" y1="${y(row.tpot_low_s)}" y2="${y(row.tpot_high_s)}" stroke="#8887" stroke-width="7"/>` +
    `<circle cx="${x(i)}" cy="${y(row.tpot_s)}" r="4" fill="${row.fits_memory === "no" ? "none" : "var(--accent)"}" stroke="var(--accent)"><title>${row.layout}: ${three(1e3 * row.tpot_s)} ms${row.fits_memory === "no" ? ", does not fit" : ""}</title></circle>` +
    `<text x="${x(i)}" y="198" text-anchor="middle" class="${row === top ? "strong" : ""}">${row.layout}</text>` +
    `<text x="${x(i)}" y="${y(row.tpot_high_s) - 5}" text-anchor="middle">${three(1e3 * row.tpot_s)}</text>`).join("");
  $("curve").innerHTML = svg(400, 204, `<text x="4" y="14">ms</text><polyline points="${line}" fill="none" stroke="var(--accent)" stroke-width="1.5"/>${marks}`,
    rows.map((row) => `${row.layout} ${three(1e3 * row.tpot_s)} ms`).join(", "));
}
function bars(rows, top) {
  const most = Math.max(...rows.map((row) => row.step_s)), high = 22;
  const used = Object.keys(COLOURS).filter((part) => rows.some((row) => row[part + "_s"] > 0.004 * row.step_s));
  const made = rows.map((row, i) => {
    let at = 60;
    const parts = used.map((part) => { const wide = 230 * row[part + "_s"] / most; const from = at; at += wide;
      return `<rect x="${from}" y="${i * high + 3}" width="${wide}" height="15" fill="${COLOURS[part]}"><title>${NAMES[part]}: ${time(row[part + "_s"])}, ${three(100 * row[part + "_s"] / row.step_s)} %</title></rect>`; }).join("");
    return `<text x="54" y="${i * high + 15}" text-anchor="end" class="${row === top ? "strong" : ""}">${row.layout}</text>${parts}<text x="${at + 5}" y="${i * high + 15}">${three(1e3 * row.step_s)} ms${row.fits_memory === "no" ? ", does not fit" : ""}</text>`;
  }).join("");
  $("bars").innerHTML = `<div class="key">${used.map((part) => `<span data-word="${NAMES[part]}"><i style="background:${COLOURS[part]}"></i>${NAMES[part]}</span>`).join("")}</div>` +
    svg(400, rows.length * high + 4, made, "parts of a step by layout");
}
function reduce(turn, batch) {
  if (!turn) { $("reduce").innerHTML = "<p class='quiet'>One GPU has no all-reduce.</p>"; return; }
  const sizes = turn.sizes_bytes, low = Math.min(...turn.times_s) / 1.5, high = Math.max(...turn.times_s);
  const x = (v) => log(v, sizes[0], sizes.at(-1), 50, 390), y = (v) => log(v, high, low, 12, 170);
  const message = Math.min(Math.max(turn.message_bytes_per_sequence * batch, sizes[0]), sizes.at(-1));
  const half = turn.half_size_bytes ? `<line x1="${x(turn.half_size_bytes)}" x2="${x(turn.half_size_bytes)}" y1="12" y2="170" class="axis" stroke-dasharray="3"/><text x="${x(turn.half_size_bytes) + 3}" y="22">n_1/2 ${bytes(turn.half_size_bytes)}</text>` : "";
  const lines = axes(binary(sizes[0], sizes.at(-1)), ticks(low, high, 5, time), x, y, [50, 390, 12, 170]);
  $("reduce").innerHTML = svg(400, 190, `${lines}${half}` +
    `<polyline fill="none" stroke="var(--accent)" stroke-width="1.5" points="${sizes.map((v, i) => x(v) + "," + y(turn.times_s[i])).join(" ")}"/>` +
    `<line x1="${x(message)}" x2="${x(message)}" y1="12" y2="170" stroke="#D55E00" stroke-width="2"/><text x="${x(message) + 4}" y="164" class="strong">${bytes(message)} at batch ${three(batch)}</text>`,
    `all-reduce over ${turn.tp} GPUs, ${turn.kind}`) + `<p class="quiet">TP${turn.tp}, ${turn.kind}; n_1/2 is where latency and bytes count alike.</p>`;
}
function map(found, batch) {
  const part = (word) => BINDING[word] ?? word;
  const seen = [...new Set(found.layouts.flatMap((each) => each.binding.map(part)))];
  $("map").innerHTML = `<div class="key">${seen.map((each) => `<span><i style="background:${COLOURS[each]}"></i>${NAMES[each]}</span>`).join("")}</div>` +
    `<div class="scroll"><table class="heat"><tr><th></th>${found.batches.map((each) => `<th scope="col"${each === batch ? " class='strong'" : ""}>${each}</th>`).join("")}</tr>` +
    found.layouts.map((each) => `<tr><th scope="row">${each.layout}</th>${each.binding.map((word, i) => {
      const out = each.fits_memory[i] === "no";
      return `<td style="background:${out ? "transparent" : COLOURS[part(word)]}" title="${each.layout}, batch ${found.batches[i]}: ${out ? "does not fit" : NAMES[part(word)]}"></td>`; }).join("")}</tr>`).join("") + "</table></div>";
}
function savings(best, link) {
  const most = Math.max(...best.savings.map((each) => each.share), 1e-9);
  return `<section class="card"><h2>What would save time at batch ${three(best.batch)}${best.fastest ? ", " + best.fastest : ""}</h2>` +
    best.savings.filter((each) => each.share > 1e-4).slice(0, 7).map((each) => `<div class="save${each.told ? "" : " faint"}" title="${each.told ? "" : "within the model's error"}"><span>${escaped(each.name.replace("in-node link", link))}</span><span>${three(100 * each.share)} %</span><span class="track"><b style="width:${100 * each.share / most}%"></b></span></div>`).join("") + "</section>";
}
function numbers(rows) {
  const keys = ["layout", "batch", "step_s", "low_s", "high_s", "tpot_s", "tokens_per_s_per_user", "tokens_per_s_per_gpu", "weights_s", "experts_s", "kv_s", "compute_s", "launch_s", "collective_fixed_s", "collective_transfer_s", "hand_over_s", "prefill_s", "memory_bytes", "fits_memory", "kind"];
  $("numbers").innerHTML = `<tr>${keys.map((key) => `<th scope="col">${key}</th>`).join("")}</tr>` +
    rows.map((row) => `<tr>${keys.map((key) => `<td data-key="${key}" data-value="${escaped(row[key])}">${typeof row[key] === "number" ? Number(row[key].toPrecision(6)) : escaped(row[key])}</td>`).join("")}</tr>`).join("");
}
// ---- beginning
function listen() {
  let busy = false, again = false;
  // One question at a time: what moves meanwhile is asked when the answer is drawn.
  const soon = async () => {
    label();
    again = true;
    if (busy) return;
    busy = true;
    while (again) { again = false; await update(); }
    busy = false;
  };
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.on.addEventListener("change", machine);
  form.model.addEventListener("change", soon);
  $("reset").addEventListener("click", () => { for (const slider of form.querySelectorAll("[data-path]")) slider.value = 0; update(); });
  $("copy").addEventListener("click", async () => { try { await navigator.clipboard.writeText(command()); $("copy").textContent = "Copied"; } catch { $("word").textContent = command(); } });
  field().addEventListener("change", update);
  $("drop").querySelector("input").addEventListener("change", (event) => dropped(event.target.files[0]));
  $("play").addEventListener("click", () => { if (moments) play(); });
  $("clock").addEventListener("input", (event) => { cancelAnimationFrame(playing); if (moments) at(Number(event.target.value)); });
  $("points").addEventListener("click", chose);
  $("points").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); chose(event); } });
  $("drop").addEventListener("dragover", (event) => event.preventDefault());
  $("drop").addEventListener("drop", (event) => { event.preventDefault(); dropped(event.dataTransfer.files[0]); });
  document.addEventListener("mouseover", (event) => { const word = event.target.closest?.("[data-word]")?.dataset.word; if (word) $("word").textContent = `${word}: ${names.words[word] ?? ""}`; });
}
// The catalogue's own machine, which the sliders multiply.
async function machine() {
  const plain = new URLSearchParams({model: form.model.value, on: form.on.value, tp: "1", batch: "1"});
  try {
    base = Object.fromEntries((await fetched("panel?" + plain)).sliders.map((each) => [each.path, each.value]));
  } catch (error) { $("problem").textContent = error.message; }
  await update();
}
async function begin() {
  names = await fetched("names");
  const fill = (name, list) => { form[name].innerHTML = list.map((each) => `<option>${escaped(each)}</option>`).join(""); };
  fill("model", names.models); fill("on", names.systems); fill("engine", names.engines);
  $("sliders").insertAdjacentHTML("beforeend", Object.entries(names.sliders).map(([path, name]) =>
    `<label>${escaped(name)} <span class="value"></span><input type="range" data-path="${path}" min="-4" max="4" step="0.125" value="0" list="middle"></label>`).join("") + '<datalist id="middle"><option value="0"></option></datalist>');
  $("tabs").innerHTML = Object.entries(TABS).map(([key, name]) => `<button type="button" data-tab="${key}">${name}</button>`).join("");
  $("tabs").addEventListener("click", (event) => { const chosen = event.target.dataset.tab; if (chosen) { tab = chosen; field().value = EXTRA[tab] ?? ""; update(); } });
  restore();
  field().value = EXTRA[tab] ?? "";
  listen();
  await machine();
  document.body.dataset.ready = "yes";
}
begin();
