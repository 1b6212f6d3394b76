// Show the OpenAPI document as a page, without resources from other sites.
import { byId, make } from "./dom.js";

function resolve(document_, schema) {
  return schema?.$ref ? document_.components.schemas[schema.$ref.split("/").at(-1)] : schema;
}

function describeType(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(describeType))].join(" | ");
  if (Array.isArray(schema.type)) return schema.type.join(" | ");
  if (schema.type === "array") return `[${describeType(schema.items ?? {})}]`;
  return schema.type ?? "any";
}

// Convert `code` in a text to elements.
function drawText(text = "") {
  return text.split("`").map((part, number) => (number % 2 ? make("code", {}, part) : part));
}

function drawFields(document_, reference) {
  const schema = resolve(document_, reference);
  const rows = Object.entries(schema?.properties ?? {}).map(([name, field]) => {
    const isRequired = schema.required?.includes(name);
    const fallback = field.default === undefined ? "" : ` = ${JSON.stringify(field.default)}`;
    return make(
      "tr",
      {},
      make("td", {}, make("code", {}, isRequired ? name : `${name}?`)),
      make("td", {}, make("code", {}, describeType(field) + fallback), make("br"), ...drawText(field.description)),
    );
  });
  return rows.length ? make("table", {}, make("tbody", {}, ...rows)) : make("p", {}, describeType(reference ?? {}));
}

function drawRoute(document_, path, verb, route) {
  const body = route.requestBody?.content["application/json"];
  const response = route.responses["200"]?.content?.["application/json"]?.schema;
  const parts = [
    make("summary", {}, make("span", { class: "verb" }, verb.toUpperCase()), make("code", {}, path), make("span", {}, ...drawText(route.description))),
  ];
  if (body) {
    const [example] = resolve(document_, body.schema).examples;
    const command = `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example)}'`;
    parts.push(make("h3", {}, "Request"), drawFields(document_, body.schema), make("h3", {}, "Example"), make("pre", {}, command));
  }
  if (response && Object.keys(response).length) parts.push(make("h3", {}, "Response"), drawFields(document_, response));
  const errors = Object.entries(route.responses).filter(([status]) => status !== "200");
  if (errors.length) {
    const rows = errors.map(([status, { description }]) =>
      make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, description)),
    );
    parts.push(make("h3", {}, "Errors"), make("table", {}, make("tbody", {}, ...rows)));
  }
  return make("details", { open: path === "/v1/embeddings" }, ...parts);
}

async function start() {
  try {
    const document_ = await (await fetch("openapi.json")).json();
    byId("about").textContent = document_.info.description;
    for (const [path, verbs] of Object.entries(document_.paths)) {
      for (const [verb, route] of Object.entries(verbs)) byId("routes").append(drawRoute(document_, path, verb, route));
    }
  } catch {
    byId("error").hidden = false;
    byId("error").textContent = "The description could not be read from the server.";
  }
}

start();
