// What lookup.js needs of a browser. `node lookup_dom.js LOOKUP.js DATA.json WORDS...` types each of the words, with the
// level that stands before a "=" if one does, and prints what the page shows: JSON, one object for each.
"use strict";
const fs = require("fs");
const [script, data, ...typed] = process.argv.slice(2);

class Node_ {
  constructor(tag) { Object.assign(this, { tag, children: [], listeners: {}, attributes: {}, value: "", own: "" }); }
  set textContent(text) { this.own = text; }
  get textContent() { return this.own + this.children.map((c) => c.textContent).join(" "); }
  setAttribute(key, value) { this.attributes[key] = value; if (key === "value") this.value = String(value); }
  append(node) { this.children.push(typeof node === "string" ? Object.assign(new Node_("text"), { own: node }) : node); }
  replaceChildren() { this.children = []; }
  addEventListener(kind, act) { this.listeners[kind] = act; }
  all(tag) { return this.children.flatMap((c) => [...(c.tag === tag ? [c] : []), ...c.all(tag)]); }
}

const nodes = {};
global.document = { createElement: (tag) => new Node_(tag), getElementById: (id) => (nodes[id] ??= new Node_(id)) };
global.location = { hash: "" };
document.getElementById("lookup-data").own = fs.readFileSync(data, "utf8");
(0, eval)(fs.readFileSync(script, "utf8"));
const box = (name) => nodes[`lookup-${name}`];
const settled = () => new Promise((done) => setTimeout(done, 150));
(async () => {
  await settled();
  const levels = box("level").all("option").map((o) => o.textContent);
  for (const text of typed) {
    const [level, word] = text.includes("=") ? text.split("=") : ["", text];
    box("level").value = level === "" ? "" : String(levels.indexOf(level));
    box("code").value = word;
    box("form").listeners.submit({ preventDefault() {} });
    await settled();
    const title = box("result").all("h3").map((h) => h.textContent)[0] ?? "";
    const says = [...box("found").all("p"), ...box("result").all("p")].map((p) => p.textContent);
    const tables = box("result").all("table").map((t) => t.all("tr").slice(1).map((r) => r.children.map((c) => c.textContent)));
    console.log(JSON.stringify({ title, says, choices: box("found").all("button").map((b) => b.textContent), tables }));
  }
})();
