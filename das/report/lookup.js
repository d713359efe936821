// Look up a unit: codes and counts are unpacked level by level when they are asked for (see lookup.py).
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("lookup-data").textContent);
  const form = document.getElementById("lookup-form");
  const levelBox = document.getElementById("lookup-level");
  const codeBox = document.getElementById("lookup-code");
  const found = document.getElementById("lookup-found");
  const result = document.getElementById("lookup-result");
  const withTruth = data.levels.some((l) => l.queries.some((q) => "true" in q));
  const number = (x) => x.toLocaleString("en-US").replace("-", "\u2212");
  const words = (name) => name.split("_").map((w, i) => i && /^.[^A-Z]*$/.test(w) ? w.toLowerCase() : w).join(" ");

  async function inflate(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function unpack(text) {
    const raw = await inflate(text);
    const width = raw[0], n = (raw.length - 1) / width, out = new Float64Array(n);
    for (let k = width - 1; k >= 0; k--)
      for (let i = 0; i < n; i++) out[i] = out[i] * 256 + raw[1 + k * n + i];
    for (let i = 0; i < n; i++) out[i] = out[i] % 2 ? -(out[i] + 1) / 2 : out[i] / 2;
    return out;
  }

  async function open(level) {
    if (!level.open) {
      level.open = (async () => {
        level.names = JSON.parse(new TextDecoder().decode(await inflate(level.codes)));
        level.up = await unpack(level.parent);
        for (const q of level.queries)
          for (const side of ["published", "noisy", "margin", "true"])
            if (side in q) q[side] = await unpack(q[side]);
      })();
    }
    await level.open;
    return level;
  }

  function add(parent, tag, text, attributes = {}) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent.append(node);
    return node;
  }

  function linkTo(parent, depth, unit) {
    const code = data.levels[depth].names[unit];
    const button = add(parent, "button", code, { type: "button", class: "unit" });
    button.addEventListener("click", () => show(depth, unit));
  }

  function cells(row, q, i, unit, units) {
    const at = i * units + unit, published = q.published[at];
    add(row, "td", number(published));
    const margin = q.margin ? q.margin[unit] : -1;
    if (margin >= 0) {
      const noisy = q.noisy[at];
      add(row, "td", number(noisy));
      add(row, "td", `${number(noisy - margin)} to ${number(noisy + margin)}`);
    } else {
      add(row, "td", q.exact ? "exact" : "not measured");
      add(row, "td", q.exact ? number(published) : "–");
    }
    if (withTruth) {
      add(row, "td", number(q.true[at]));
      add(row, "td", number(published - q.true[at]), { class: "strong" });
    }
  }

  function table(q, unit, units) {
    const box = add(result, "div", undefined, { class: "scroll" });
    const grid = add(box, "table");
    const caption = add(grid, "caption", `${q.title} (${q.records})`);
    if (q.name !== "total") { caption.append(" "); add(caption, "code", q.name); }
    const head = add(add(grid, "thead"), "tr");
    const columns = ["count", "published", "noisy", "95% interval"].concat(withTruth ? ["true", "error"] : []);
    for (const name of columns) add(head, "th", name, { scope: "col" });
    const body = add(grid, "tbody");
    q.labels.forEach((label, i) => {
      const row = add(body, "tr");
      add(row, "th", label, { scope: "row" });
      cells(row, q, i, unit, units);
    });
  }

  async function show(depth, unit) {
    const level = await open(data.levels[depth]);
    levelBox.value = String(depth);
    codeBox.value = level.names[unit];
    found.replaceChildren();
    result.replaceChildren();
    add(result, "h3", `${words(level.name)} ${level.names[unit]}`);
    if (depth > 0) {
      const above = await open(data.levels[depth - 1]);
      const line = add(result, "p", `Part of ${words(above.name)} `);
      linkTo(line, depth - 1, level.up[unit]);
    }
    for (const q of level.queries) table(q, unit, level.names.length);
    if (depth + 1 < data.levels.length) {
      const below = await open(data.levels[depth + 1]);
      const box = add(result, "details");
      const children = [];
      below.up.forEach((parent, i) => { if (parent === unit) children.push(i); });
      add(box, "summary", `${number(children.length)} of ${words(below.name)} in it`);
      for (const child of children) linkTo(box, depth + 1, child);
    }
  }

  async function search() {
    const depth = Number(levelBox.value), wanted = codeBox.value.trim();
    const level = await open(data.levels[depth]);
    const exact = level.names.indexOf(wanted);
    if (exact >= 0 || level.names.length === 1) return show(depth, Math.max(exact, 0));
    const hits = [];
    for (let i = 0; i < level.names.length && hits.length < 25; i++)
      if (level.names[i].includes(wanted)) hits.push(i);
    result.replaceChildren();
    found.replaceChildren();
    if (!hits.length) {
      add(found, "p", `No ${words(level.name)} has “${wanted}” in its code. The first is ${level.names[0]}.`);
    } else {
      add(found, "p", hits.length < 25 ? "Which one?" : "The first 25 that fit; type more of the code.");
      for (const hit of hits) linkTo(found, depth, hit);
    }
  }

  data.levels.forEach((level, i) => add(levelBox, "option", words(level.name), { value: i }));
  form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  levelBox.addEventListener("change", () => { codeBox.value = ""; search(); });
  form.hidden = false;
  const asked = decodeURIComponent(location.hash.slice(1)).split("=");
  const depth = data.levels.findIndex((l) => l.name === asked[0]);
  levelBox.value = String(Math.max(depth, 0));
  if (depth >= 0) { codeBox.value = asked[1] ?? ""; search(); } else show(0, 0);
})();
