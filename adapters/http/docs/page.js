"use strict";

// element makes an element. Text is only ever set as text, so nothing of the
// description or of an answer is read as markup.
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  for (const child of children) if (child !== null && child !== undefined) e.append(child);
  return e;
}

let api = null;

function resolve(schema) {
  while (schema && schema.$ref) schema = schema.$ref.split("/").slice(1).reduce((at, part) => at && at[part], api);
  return schema || {};
}

function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return typeName(schema.items || {}) + "[]";
  if (schema.type === "object" && schema.additionalProperties && schema.additionalProperties !== true)
    return "map of " + typeName(schema.additionalProperties);
  const types = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "any";
  return schema.format ? types + " (" + schema.format + ")" : types;
}

// fields lists the properties of a schema, those of nested objects below them.
function fields(schema, prefix, rows, seen) {
  const s = resolve(schema);
  if (s.type === "array") return fields(s.items || {}, prefix + "[]", rows, seen);
  if (s.anyOf) return s.anyOf.forEach((one) => fields(one, prefix, rows, seen));
  if (s.additionalProperties && typeof s.additionalProperties === "object") fields(s.additionalProperties, prefix + ".*", rows, seen);
  for (const [name, property] of Object.entries(s.properties || {})) {
    const path = prefix ? prefix + "." + name : name;
    const needed = (s.required || []).includes(name);
    rows.push([path, typeName(property), needed, property.description || resolve(property).description || ""]);
    const inner = property.$ref || (property.items && property.items.$ref) || typeName(property);
    if (!seen.includes(inner)) fields(property, path, rows, seen.concat(inner));
  }
}

function table(heads, rows) {
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", {}, i < 2 ? element("code", {}, cell) : cell))));
  return element("table", {}, element("tr", {}, ...heads.map((h) => element("th", {}, h))), ...body);
}

function shape(schema) {
  const rows = [];
  fields(schema, "", rows, []);
  if (rows.length === 0) return element("p", {}, element("code", {}, typeName(schema)));
  return table(["field", "type", "always", ""], rows.map(([path, type, needed, text]) => [path, type, needed ? "yes" : "no", text]));
}

function example(schema) {
  const s = resolve(schema);
  if (s.example !== undefined) return s.example;
  if (s.anyOf) return example(s.anyOf[0]);
  if (s.enum) return s.enum[0];
  const type = Array.isArray(s.type) ? s.type[0] : s.type;
  if (type === "object") return Object.fromEntries(Object.entries(s.properties || {}).filter(([name]) => (s.required || []).includes(name)).map(([name, p]) => [name, example(p)]));
  return { array: [], integer: 0, number: 0, boolean: false }[type] ?? "";
}

function content(holder) {
  const all = holder && holder.content ? Object.entries(holder.content) : [];
  return all.length ? { type: all[0][0], schema: all[0][1].schema } : null;
}

// caller is the part of an operation that makes a call.
function caller(method, path, operation) {
  const parameters = operation.parameters || [];
  const inputs = parameters.map((p) => {
    const name = resolve(p).name;
    return { p: resolve(p), input: element("input", { placeholder: name, "aria-label": name }) };
  });
  const body = content(operation.requestBody);
  const text = body ? element("textarea", { "aria-label": "body", spellcheck: "false" }, JSON.stringify(example(body.schema), null, 2)) : null;
  const answer = element("div", { class: "answer" });
  const send = element("button", { type: "submit" }, "Send");
  const form = element("form", {}, ...inputs.map(({ p, input }) => element("label", {}, p.name + " ", input)), send);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let url = path;
    const query = new URLSearchParams();
    for (const { p, input } of inputs) {
      if (p.in === "path") url = url.replace("{" + p.name + "}", encodeURIComponent(input.value));
      else if (p.in === "query" && input.value !== "") query.set(p.name, input.value);
    }
    if ([...query].length) url += "?" + query;
    const headers = {};
    const user = document.getElementById("user").value;
    if (user) {
      const pair = new TextEncoder().encode(user + ":" + document.getElementById("password").value);
      headers.Authorization = "Basic " + btoa(String.fromCharCode(...pair));
    }
    if (text) headers["Content-Type"] = "application/json";
    send.disabled = true;
    try {
      const response = await fetch(url, { method, headers, body: text ? text.value : undefined, credentials: "omit" });
      const raw = await response.text();
      let shown = raw;
      try { shown = JSON.stringify(JSON.parse(raw), null, 2); } catch { /* it is no JSON */ }
      answer.replaceChildren(element("p", {}, element("code", {}, method + " " + url), " answered ", element("b", {}, String(response.status))), element("pre", {}, shown));
    } catch (failure) {
      answer.replaceChildren(element("p", {}, "no answer: " + failure.message));
    }
    send.disabled = false;
  });
  return element("div", {}, element("h3", {}, "Try it"), text, form, answer);
}

function operationBox(method, path, operation) {
  const inside = element("div", {});
  const box = element("details", { id: operation.operationId },
    element("summary", {}, element("span", { class: "method " + method }, method), element("code", {}, path),
      element("span", {}, operation.summary || ""), element("span", { class: "role" }, operation["x-role"] || "")), inside);
  box.addEventListener("toggle", () => {
    if (!box.open || inside.childElementCount) return;
    if (operation.description) inside.append(element("p", {}, operation.description));
    const parameters = (operation.parameters || []).map(resolve);
    if (parameters.length) inside.append(element("h3", {}, "Parameters"),
      table(["name", "type", "in", ""], parameters.map((p) => [p.name, typeName(p.schema || {}), p.in + (p.required ? ", needed" : ""), p.description || ""])));
    const body = content(operation.requestBody);
    if (body) inside.append(element("h3", {}, "Body"), shape(body.schema));
    inside.append(element("h3", {}, "Answers"));
    for (const [status, r] of Object.entries(operation.responses || {})) {
      const answer = resolve(r);
      inside.append(element("p", {}, element("b", {}, status), " " + (answer.description || "")));
      const shown = content(answer);
      if (shown && status.startsWith("2")) inside.append(shape(shown.schema));
    }
    inside.append(caller(method, path, operation));
  });
  box.dataset.words = (method + " " + path + " " + (operation.summary || "") + " " + (operation.description || "")).toLowerCase();
  return box;
}

function show() {
  document.getElementById("about").textContent = api.info.description || "";
  const list = document.getElementById("list");
  const boxes = new Map((api.tags || []).map((t) => [t.name, []]));
  for (const [path, item] of Object.entries(api.paths))
    for (const method of ["get", "post", "patch", "put", "delete"])
      if (item[method]) {
        const tag = (item[method].tags || ["other"])[0];
        if (!boxes.has(tag)) boxes.set(tag, []);
        boxes.get(tag).push(operationBox(method.toUpperCase(), path, item[method]));
      }
  const sections = [];
  for (const [tag, operations] of boxes) {
    if (!operations.length) continue;
    const about = (api.tags || []).find((t) => t.name === tag);
    sections.push(element("section", {}, element("h2", {}, tag), about && about.description ? element("p", {}, about.description) : null, ...operations));
  }
  list.replaceChildren(...sections);
  document.getElementById("filter").addEventListener("input", (event) => {
    const word = event.target.value.toLowerCase();
    for (const section of list.children) {
      let any = false;
      for (const box of section.querySelectorAll("details")) {
        box.hidden = !box.dataset.words.includes(word);
        any = any || !box.hidden;
      }
      section.hidden = !any;
    }
  });
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (wanted) wanted.open = true;
}

document.getElementById("who").addEventListener("submit", (event) => event.preventDefault());
fetch("openapi.json", { credentials: "omit" })
  .then((response) => { if (!response.ok) throw new Error("status " + response.status); return response.json(); })
  .then((found) => { api = found; show(); })
  .catch((failure) => { document.getElementById("about").textContent = "The description cannot be read: " + failure.message; });
