// Look up a unit by its name, code or GEOID: codes and counts are unpacked level by level when they are asked for (see
// lookup.py).
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("lookup-data").textContent);
  data.levels = data.levels.concat(data.areas);  // areas across the levels, which have no parents
  const form = document.getElementById("lookup-form");
  const levelBox = document.getElementById("lookup-level");
  const codeBox = document.getElementById("lookup-code");
  const found = document.getElementById("lookup-found");
  const result = document.getElementById("lookup-result");
  const withTruth = data.levels.some((l) => l.queries.some((q) => "true" in q));
  const replicated = data.coverage !== undefined;
  const brief = data.brief === true;  // for the public: published counts and intervals
  let assigned = false;  // whether tables that a rule assigned are shown
  const number = (x) => x.toLocaleString("en-US").replace("-", "\u2212");
  const fromTo = (low, high) => low === high ? number(low) : `${number(low)} to ${number(high)}`;
  // Whom a name means first, of places that share it: "Providence" is the city.
  const MEANT = ["Place", "County_Subdivision", "County", "State"];
  const kindOrder = (level) => (MEANT.indexOf(level.name) + MEANT.length + 1) % (MEANT.length + 1);
  const plain = (text) => text.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  // A block's code has the digit of its block group twice; a GEOID, which joins to TIGER, has it once.
  const geoid = (level, code) => level.name === "Block" ? code.slice(-16, -5) + code.slice(-4) : code;

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

  const texts = async (packed) => JSON.parse(new TextDecoder().decode(await inflate(packed)));

  // Codes and names of a level, for a search.
  async function read(level) {
    level.read ??= (async () => {
      level.code = await texts(level.codes);
      level.title = level.names ? await texts(level.names) : [];
    })();
    await level.read;
    return level;
  }

  async function open(level) {
    await read(level);
    if (!level.open) {
      level.open = (async () => {
        level.up = level.parent ? await unpack(level.parent) : [];
        for (const q of level.queries)
          for (const side of ["published", "noisy", "measured", "off", "within", "kind", "from", "to", "below", "above", "true"])
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

  // Among places of one kind a name will do; alone, a place shows its kind and code, too.
  const called = (level, unit) => level.title[unit] || level.code[unit];
  const coded = (level, unit) => [...new Set([level.words, level.code[unit]])].join(" ");
  const full = (level, unit) => level.title[unit] ? `${level.title[unit]} (${coded(level, unit)})` : coded(level, unit);

  function linkTo(parent, depth, unit, text) {
    const level = data.levels[depth];
    const button = add(parent, "button", text ?? called(level, unit), { type: "button", class: "unit" });
    if (level.title[unit]) button.setAttribute("title", level.code[unit]);
    button.addEventListener("click", () => show(depth, unit));
  }

  // Both ends of the interval of a count; none where nothing determines it.
  function interval(q, i, unit, units) {
    const at = i * units + unit, published = q.published[at];
    if (q.exact) return [published, published];
    if (q.to) return q.to[at] < 0 ? null : [q.from[at], q.to[at]];
    const within = q.within ? q.within[q.kind[unit] * q.labels.length + i] : -1, middle = published + (within < 0 ? 0 : q.off[at]);
    if (within < 0) return null;
    const all = q.limited ? q.labels.reduce((sum, _, j) => sum + q.published[j * units + unit], 0) : Infinity;
    return [Math.max(middle - within, 0), Math.min(middle + within, all)];
  }

  // The interval in words; one that the published count is outside of is marked.
  function said(q, i, unit, units) {
    const ends = interval(q, i, unit, units), published = q.published[i * units + unit];
    if (q.exact && brief) return "exact";
    if (!ends) return "\u2013";
    const outside = published < ends[0] || published > ends[1];
    if (!outside) return fromTo(...ends);
    return brief ? `${fromTo(...ends)} *` : `\u2691 outside ${fromTo(...ends)}`;
  }

  function cells(row, q, i, unit, units) {
    const at = i * units + unit, published = q.published[at];
    add(row, "td", number(published), brief ? { class: "strong" } : {});
    if (replicated) add(row, "td", q.below ? fromTo(published - q.below[at], published + q.above[at]) : "–", { class: "strong" });
    if (brief && !q.within && !q.to && !q.exact) return;
    if (!brief) add(row, "td", q.noisy && q.measured[unit] ? number(q.noisy[at]) : q.exact ? "exact" : "not measured");
    const text = said(q, i, unit, units);
    add(row, "td", text, /^\u2691|\*$/.test(text) ? { class: "outside" } : {});
    if (withTruth) {
      add(row, "td", number(q.true[at]));
      add(row, "td", number(published - q.true[at]), { class: "strong" });
    }
  }

  // Why a published count can be outside its interval, where one is.
  function whyOutside(into) {
    if (!brief || ![...into.querySelectorAll("td, dd")].some((x) => x.textContent.endsWith("*"))) return;
    add(into, "p", "* The published count is outside: published counts add up over all places and none is negative, which moves some. " +
      "And one interval in twenty misses by chance. Quote the interval with it.", { class: "quiet" });
  }

  // A long table is folded, so that those after it are seen.
  function table(into, q, unit, units) {
    const holder = q.labels.length > (brief ? 2 : 12) ? add(into, "details") : into;
    if (holder !== into) add(holder, "summary", `${q.title} (${q.records}): ${number(q.labels.length)} counts`);
    const box = add(holder, "div", undefined, { class: "scroll" });
    const grid = add(box, "table");
    const caption = add(grid, "caption", `${q.title} (${q.records})`);
    if (q.name !== "total" && !brief) { caption.append(" "); add(caption, "code", q.name); }
    const head = add(add(grid, "thead"), "tr");
    const columns = brief ? ["count", "published", ...(q.within || q.to || q.exact ? ["95%\u00a0interval"] : [])]
                  : ["count", "published", ...(replicated ? [`${data.coverage}\u00a0interval of\u00a0published`] : []), "noisy",
                     "95%\u00a0interval" + (replicated ? " from measurements" : ""), ...(withTruth ? ["true", "error"] : [])];
    for (const name of columns) add(head, "th", name, { scope: "col" });
    const body = add(grid, "tbody");
    q.labels.forEach((label, i) => {
      const row = add(body, "tr");
      add(row, "th", label, { scope: "row" });
      cells(row, q, i, unit, units);
    });
    whyOutside(holder);
  }

  // The totals of a place, large enough to be read at once, and a sentence to quote.
  function summary(level, unit) {
    const list = add(result, "dl", undefined, { class: "totals" }), units = level.code.length;
    for (const q of level.queries) {
      if (q.name !== "total") continue;
      const box = add(list, "div"), text = said(q, 0, unit, units);
      add(box, "dt", q.records);
      add(box, "dd", number(q.published[unit]), { class: "big" });
      if (text === "exact") add(box, "dd", "exact, without noise");
      else if (interval(q, 0, unit, units)) add(box, "dd", `95% interval: ${text}`);
    }
    whyOutside(result);
    const first = level.queries.find((q) => q.name === "total"), ends = first && interval(first, 0, unit, units);
    if (!ends) return;
    const count = first.published[unit], records = count === 1 ? first.records.replace(/s$/, "") : first.records;
    const has = `${level.title[unit] || coded(level, unit)} has ${number(count)} ${records}`;
    const sure = first.exact ? "the count was published without noise"
               : ends[0] === ends[1] ? "this follows from counts that were published without noise"
               : `before noise was added, the count was between ${number(ends[0])} and ${number(ends[1])} (95% confidence)`;
    add(result, "p", `To quote: \u201c${has}; ${sure}.\u201d`, { class: "quote" });
  }

  // `others` have the name that was typed, too.
  async function show(depth, unit, others = []) {
    const level = await open(data.levels[depth]);
    const code = level.code[unit];
    found.replaceChildren();
    result.replaceChildren();
    add(result, "h3", full(level, unit));
    if (level.geoid && geoid(level, code) !== code) add(result, "p", `GEOID ${geoid(level, code)}`);
    if (!level.parent && !brief) add(result, "p", "Counts are sums of published counts of its parts; none was measured as a whole.");
    if (depth > 0 && level.parent) {
      const above = await open(data.levels[depth - 1]);
      const line = add(result, "p", "Part of ");
      linkTo(line, depth - 1, level.up[unit], full(above, level.up[unit]));
    }
    if (brief) summary(level, unit);
    if (others.length) {
      const line = add(result, "p", "Others with this name: ", { class: "others" });
      for (const other of others.slice(0, 12)) {
        linkTo(line, other.depth, other.unit, full(data.levels[other.depth], other.unit));
        line.append(" ");
      }
      if (others.length > 12) line.append(`and ${number(others.length - 12)} more: type more of the name.`);
    }
    const tables = add(result, "div", undefined, withTruth || replicated ? {} : { class: "tables" });
    for (const q of level.queries)
      if ((!brief || q.name !== "total") && (!q.assigned || assigned)) table(add(tables, "div"), q, unit, level.code.length);
    const hidden = level.queries.filter((q) => q.assigned).length;
    if (hidden) {
      const many = `${number(hidden)} table${hidden > 1 ? "s" : ""} that ${hidden > 1 ? "were" : "was"} assigned by a rule, not counted`;
      const button = add(result, "button", `${assigned ? "Hide" : "Show"} ${many}`,
                         { type: "button", class: "assigned", "aria-pressed": String(assigned) });
      button.addEventListener("click", async () => {
        assigned = !assigned;
        await show(depth, unit, others);
        result.querySelector("button.assigned").focus();
      });
    }
    if (level.parent && data.levels[depth + 1]?.parent) {
      const below = await open(data.levels[depth + 1]);
      const box = add(result, "details");
      const children = [];
      below.up.forEach((parent, i) => { if (parent === unit) children.push(i); });
      add(box, "summary", `${below.words}: ${number(children.length)} inside`);
      for (const child of children) linkTo(box, depth + 1, child);
    }
  }

  // How well a unit fits what was typed: 0 its code or GEOID; 1 its name; 2 its name without its last word, such as "city";
  // 3 the beginning of its name, 4 a part of it; 5 a part of its code; 9 not at all.
  function fit(level, unit, wanted) {
    const code = level.code[unit];
    if (code === wanted || (level.geoid && geoid(level, code) === wanted)) return 0;
    const name = level.title[unit] && plain(level.title[unit]), part = plain(wanted);
    if (name === part) return 1;
    if (name?.replace(/ [^ ]*$/, "") === part) return 2;
    if (name?.startsWith(part)) return 3;
    if (name?.includes(part)) return 4;
    return code.includes(wanted) ? 5 : 9;
  }

  async function search() {
    const wanted = codeBox.value.trim(), one = levelBox.value !== "";
    const depths = one ? [Number(levelBox.value)] : [...data.levels.keys()];
    const hits = [];
    for (const depth of depths) {
      const level = await read(data.levels[depth]);
      if (one && level.code.length === 1) return show(depth, 0);
      for (let unit = 0; unit < level.code.length; unit++) {
        const rank = fit(level, unit, wanted);
        if (rank < 9) hits.push({ rank, depth, unit });
      }
    }
    const order = (hit) => kindOrder(data.levels[hit.depth]);
    hits.sort((a, b) => a.rank - b.rank || order(a) - order(b) || a.depth - b.depth || a.unit - b.unit);
    const best = hits.filter((h) => h.rank === hits[0].rank), alike = best.filter((h) => h.depth === best[0].depth);
    const others = hits.slice(1).filter((h) => h.rank <= 2);
    if (hits.length === 1 || best[0]?.rank === 0 && best.length === 1) return show(hits[0].depth, hits[0].unit);
    if (best.length && 0 < best[0].rank && best[0].rank <= 2 && alike.length === 1) return show(best[0].depth, best[0].unit, others);
    result.replaceChildren();
    found.replaceChildren();
    if (!hits.length) {
      const where = one ? data.levels[depths[0]].words : "unit";
      add(found, "p", `No ${where} has “${wanted}” in its name, its code or its GEOID.`);
      return;
    }
    add(found, "p", hits.length <= 25 ? "Which one?" : `The first 25 of ${number(hits.length)} that fit; type more.`);
    for (const { depth, unit } of hits.slice(0, 25)) linkTo(found, depth, unit, full(data.levels[depth], unit));
  }

  data.levels.forEach((level, i) => add(levelBox, "option", level.words, { value: i }));
  form.addEventListener("submit", (event) => { event.preventDefault(); search(); });
  levelBox.addEventListener("change", () => { codeBox.value = ""; if (levelBox.value !== "") search(); });
  form.hidden = false;
  const asked = decodeURIComponent(location.hash.slice(1)).split("=");
  const depth = data.levels.findIndex((l) => l.name === asked[0]);
  if (depth >= 0) { levelBox.value = String(depth); codeBox.value = asked[1] ?? ""; search(); }
  else show(...(brief ? [data.levels.findIndex((l) => l.name === data.example[0]), data.example[1]] : [0, 0]));
})();
