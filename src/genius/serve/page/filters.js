// Filters and sorting: a menu for each key of the metadata, and the order of what is found.
//
// What is chosen is a filter as the service takes it. One that is written by hand into the address may say more
// than the menus can: it is then shown as it is written, and can be removed.

import { $, make } from "./dom.js";
import { facts } from "./facts.js";
import { formatValue, isLink, isMinor, keyName } from "./metadata.js";

const MENUS = 8; // that are shown at once
const DAY = 86_400_000;
let chosen = {}; // the condition of each key that has one
let order = ""; // the key to sort by, with a minus sign for the highest first
let menus = []; // one for each facet that is offered
let onChange = () => {};

/** The filter, or null if there is none. */
export const filter = () => (Object.keys(chosen).length ? chosen : null);

/** What to sort by, or an empty text. */
export const sort = () => order;

/** Call `changed` whenever a filter or the order is chosen. */
export function watchFilters(changed) {
  onChange = changed;
  $("sort").addEventListener("change", () => {
    order = $("sort").value;
    changed();
  });
  document.addEventListener("click", (event) => closeMenus(event.target.closest?.(".facet")));
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && $("facets").querySelector(".facet[open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });
}

/** Show a filter, as JSON, and an order; `ranked` says whether there is a query that ranks what is found. */
export function showFilters(text, key, ranked) {
  chosen = parse(text);
  order = key ?? "";
  const facets = facts.facets.filter(isUseful).sort((a, b) => isMinor(a.key) - isMinor(b.key));
  if (menus.map((menu) => menu.facet).some((facet, place) => facet !== facets[place]) || menus.length !== facets.length) {
    menus = facets.map(makeMenu);
    $("facets").replaceChildren(...menus.map((menu) => menu.element), moreButton());
    for (const { element } of menus.slice(MENUS)) element.hidden = !Object.hasOwn(chosen, element.dataset.key);
  }
  for (const menu of menus) menu.update();
  showOthers();
  showOrders(facets, ranked);
  $("narrow").hidden = !facets.length && !filter() && !order;
}

function parse(text) {
  try {
    const value = JSON.parse(text ?? "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** The filter in words. */
export const describeFilter = () => Object.keys(chosen).map(describe).join(", ");

/** Whether a facet narrows anything: not if all items are alike, nor if every item is the only one of its kind. */
function isUseful({ kind, count, minimum, maximum, values }) {
  if (kind !== "value") return minimum !== maximum || count < facts.items;
  const unique = count > values.length && values.every((one) => one.count === 1);
  const varied = values.length > 1 || (typeof values[0]?.value === "boolean" && count < facts.items);
  return varied && !unique && !values.some((one) => isLink(one.value));
}

function describe(key) {
  const condition = chosen[key];
  const menu = menus.find(({ facet }) => facet.key === key);
  return menu?.read(condition)?.text ?? `${keyName(key)}: ${JSON.stringify(condition)}`;
}

/** Set the condition of a key, or remove it. */
function choose(key, condition) {
  const { [key]: _, ...rest } = chosen;
  chosen = condition === null ? rest : { ...rest, [key]: condition };
  onChange();
}

function closeMenus(except = null) {
  for (const open of $("facets").querySelectorAll(".facet[open]")) if (open !== except) open.open = false;
}

// --- menus

/** The menu of a facet: an element, what reads a condition of its key, and what shows the chosen one. */
function makeMenu(facet) {
  const { fields, read, show } = facet.kind === "value" ? valueFields(facet) : rangeFields(facet);
  const summary = make("summary", { title: facet.key });
  const clear = make("button", { type: "button", class: "quiet", text: "Clear", onclick: () => choose(facet.key, null) });
  const body = make("div", { class: "menu", role: "group", "aria-label": keyName(facet.key) }, fields, clear);
  const element = make("details", { class: "facet", "data-key": facet.key }, summary, body);
  element.addEventListener("toggle", () => {
    if (!element.open) return;
    closeMenus(element);
    body.classList.toggle("flipped", body.getBoundingClientRect().right > document.documentElement.clientWidth);
  });
  function update() {
    const condition = chosen[facet.key];
    const state = condition === undefined ? null : read(condition);
    summary.textContent = state?.text ?? keyName(facet.key);
    element.classList.toggle("chosen-one", state !== null);
    clear.hidden = condition === undefined;
    show(state);
  }
  return { facet, element, read, update };
}

/** Boxes to check, one for each value. */
function valueFields({ key, values, count }) {
  const boxes = values.map(({ value, count: number }) => {
    const box = make("input", { type: "checkbox" });
    const label = make("label", {}, box, make("span", { class: "value", text: formatValue(value) }), make("span", { class: "small", text: number.toLocaleString("en") }));
    return { value, box, label };
  });
  const listed = values.reduce((sum, { count: number }) => sum + number, 0);
  const others = count > listed ? make("p", { class: "small", text: `Other values: ${(count - listed).toLocaleString("en")}` }) : null;
  const fields = make("div", { class: "values" }, ...boxes.map(({ label }) => label), others);
  fields.addEventListener("change", () => {
    const checked = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
    choose(key, checked.length ? { $in: checked } : null);
  });
  function read(condition) {
    const list = typeof condition === "object" && condition !== null ? condition.$in : [condition];
    const known = Array.isArray(list) && Object.keys(condition).length <= 1 && list.every((value) => values.some((one) => one.value === value));
    return known ? { text: `${keyName(key)}: ${list.map((value) => formatValue(value)).join(", ")}`, list } : null;
  }
  function show(state) {
    for (const { value, box } of boxes) box.checked = state?.list.includes(value) ?? false;
  }
  return { fields, read, show };
}

/** Two fields, from and to, for numbers or dates. */
function rangeFields({ key, kind, minimum, maximum }) {
  const isDate = kind === "date";
  const day = (text) => text.slice(0, 10);
  const shared = isDate ? { type: "date", min: day(minimum), max: day(maximum) } : { type: "number", step: "any", inputmode: "decimal" };
  const from = make("input", { ...shared, placeholder: isDate ? null : minimum });
  const to = make("input", { ...shared, placeholder: isDate ? null : maximum });
  const fields = make("div", { class: "range" }, make("label", { text: "From" }, from), make("label", { text: "To" }, to));
  fields.addEventListener("change", () => {
    const condition = {};
    if (from.value) condition.$gte = isDate ? from.value : Number(from.value);
    if (to.value && isDate) condition.$lt = dayAfter(to.value); // the whole of the last day
    else if (to.value) condition.$lte = Number(to.value);
    choose(key, Object.keys(condition).length ? condition : null);
  });
  function read(condition) {
    const last = isDate ? "$lt" : "$lte";
    const type = isDate ? "string" : "number";
    const isRange = typeof condition === "object" && condition !== null && Object.keys(condition).length > 0
      && Object.entries(condition).every(([name, value]) => ["$gte", last].includes(name) && typeof value === type);
    if (!isRange) return null;
    const { $gte: low, [last]: high } = condition;
    const until = high !== undefined && isDate ? dayBefore(high) : high;
    const [start, end] = [low, until].map((value) => (value === undefined ? "" : formatValue(value)));
    const text = start && end ? `${start} – ${end}` : start ? `from ${start}` : `up to ${end}`;
    return { text: `${keyName(key)}: ${text}`, from: low, to: until };
  }
  let last = null; // the state that was shown before
  function show(state) {
    // Only what has changed: somebody may be typing into the other field.
    if (state?.from !== last?.from) from.value = state?.from ?? "";
    if (state?.to !== last?.to) to.value = state?.to ?? "";
    last = state;
  }
  return { fields, read, show };
}

const shifted = (date, by) => new Date(Date.parse(date) + by).toISOString().slice(0, 10);
const dayAfter = (date) => shifted(date, DAY);
const dayBefore = (date) => (Number.isNaN(Date.parse(date)) ? date : shifted(date, -DAY));

/** A button for the menus that are not shown at once. */
function moreButton() {
  if (menus.length <= MENUS) return "";
  const button = make("button", { type: "button", class: "quiet", text: "More filters" });
  button.addEventListener("click", () => {
    for (const { element } of menus) element.hidden = false;
    menus[MENUS].element.querySelector("summary").focus();
    button.remove();
  });
  return button;
}

/** Conditions that no menu can show, each with a button to remove it. */
function showOthers() {
  const others = Object.keys(chosen).filter((key) => {
    const menu = menus.find(({ facet }) => facet.key === key);
    return !menu?.read(chosen[key]);
  });
  $("other-filters").replaceChildren(...others.map((key) => make(
    "span",
    { class: "other" },
    make("span", { text: `${keyName(key)}: ${JSON.stringify(chosen[key])}`, title: key }),
    make("button", { type: "button", class: "away", "aria-label": `Remove the filter by ${key}`, text: "×", onclick: () => choose(key, null) }),
  )));
}

// --- sorting

const DIRECTIONS = {
  number: ["lowest first", "highest first"],
  date: ["oldest first", "newest first"],
  value: ["A to Z", "Z to A"],
};

function showOrders(facets, ranked) {
  const option = (value, text) => make("option", { value, text });
  const orders = facets.flatMap(({ key, kind }) => DIRECTIONS[kind].map((words, down) => option(`${down ? "-" : ""}${key}`, `${keyName(key)}, ${words}`)));
  if (order && !orders.some(({ value }) => value === order)) orders.push(option(order, order));
  $("sort").replaceChildren(option("", ranked ? "Best first" : "As they were added"), ...orders);
  $("sort").value = order;
}
