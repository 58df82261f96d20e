// The search view: by words, an image or both, or for more like an item.

import * as api from "./api.js";
import { card, searchSimilar, tile } from "./cards.js";
import { $, count, ghosts, make, moveFocus, say } from "./dom.js";
import { keepImage, keptImage, preview, showChosen, watchImages } from "./image.js";
import { openWhy } from "./why.js";

const HITS = 24;
let image = null; // the name of the kept image to search by
let near = null; // the id of the item to find more like
let running = null; // the controller of the search under way
let lastSearch = null; // what the results show

const wanted = () => document.querySelector("input[name=want]:checked").value;

/** The address of the search that the form describes. */
function address() {
  const parameters = new URLSearchParams();
  const query = { q: $("text").value.trim(), image, i: $("instruction").value.trim() };
  for (const [name, value] of Object.entries({ ...(near ? { near } : query), want: wanted() })) {
    if (value) parameters.set(name, value);
  }
  return `#/search${`${parameters}` ? `?${parameters}` : ""}`; // older browsers know no `size`
}

/** The JSON fields of the search that the form describes, without its image. */
function requestFields() {
  const fields = { k: HITS };
  const text = $("text").value.trim();
  if (near) fields.near = near;
  else if (text) fields.text = text;
  if (wanted()) fields.want = wanted();
  if ($("instruction").value.trim() && !near) fields.instruction = $("instruction").value.trim();
  return fields;
}

/** Set the form to the parameters of an address, and search. */
export function show(parameters) {
  const name = parameters.get("image");
  choose(parameters.get("near") || null, keptImage(name) && name);
  $("text").value = near ? "" : parameters.get("q") ?? "";
  $("instruction").value = near ? "" : parameters.get("i") ?? "";
  const radio = document.querySelector(`input[name=want][value="${CSS.escape(parameters.get("want") ?? "")}"]`);
  if (radio) radio.checked = true;
  if (name !== image) history.replaceState(null, "", address()); // a reload has lost the image
  run();
}

/** Search by an item, by an image or by neither, and show it in the form. */
function choose(id, name) {
  if (id === near && name === image) return;
  near = id;
  image = id ? null : name;
  $("instruction").disabled = Boolean(near);
  if (near) showNear(near);
  else if (image) showChosen(preview(keptImage(image)), "the picture", clearChosen);
  else showChosen(null);
}

function showNear(id) {
  showChosen(make("span", { class: "like", text: "like this" }), "an item", clearChosen);
  api.item(id).then((item) => {
    if (near === id) showChosen(tile(item, 96), item.text || item.id, clearChosen);
  }).catch(() => {});
}

function searchByImage(file) {
  choose(null, keepImage(file));
  submit();
}

function clearChosen() {
  choose(null, null);
  $("text").focus();
  submit();
}

/** Go to the address of the form's search, which runs it. */
function submit() {
  const target = address();
  if (location.hash === target) run();
  else location.hash = target;
}

/** Search, unless the results are those of this search already. */
function run() {
  const key = JSON.stringify([requestFields(), image]);
  if (key !== lastSearch) {
    lastSearch = key;
    search(requestFields(), keptImage(image));
  }
  moveFocus($("search-status"));
}

async function search(fields, file) {
  running?.abort();
  const controller = (running = new AbortController());
  const empty = !fields.text && !fields.near && !file;
  say($("search-status"), empty ? "Loading…" : "Searching…");
  $("results").setAttribute("aria-busy", "true");
  $("results").replaceChildren(...ghosts(empty ? 0 : 12, "tall"));
  try {
    const answer = empty
      ? await api.cell("", { samples: HITS, signal: controller.signal })
      : await api.search(fields, file, controller.signal);
    if (controller !== running) return;
    if (empty) welcome(answer);
    else present(answer, explainer(fields, file));
  } catch (error) {
    if (error.name === "AbortError" || controller !== running) return;
    lastSearch = null;
    $("results").replaceChildren();
    say($("search-status"), error.message, "wrong", { text: "Try again", run });
  } finally {
    if (controller === running) $("results").removeAttribute("aria-busy");
  }
}

/** Finds the explained hit of an item, by one more search for all hits when the first is needed. */
function explainer(fields, file) {
  let explained = null;
  return async (id) => {
    explained ??= api.search({ ...fields, explain: true }, file).catch((error) => {
      explained = null;
      throw error;
    });
    return (await explained).hits.find((hit) => hit.item.id === id);
  };
}

function present(answer, explain) {
  const cards = answer.hits.map((hit) => card(hit.item, {
    hit,
    onWhy: () => openWhy(hit, explain),
    onSimilar: () => searchSimilar(hit.item),
  }));
  $("results").replaceChildren(...cards);
  const number = answer.hits.length;
  const message = number ? `${count(number, "item", "items")}, best first` : "Nothing was found. Perhaps with other words, or Anything?";
  say($("search-status"), [message, ...answer.notes].join(" · "), number ? "" : "empty");
}

/** Before a search: some items of the collection. */
function welcome(collection) {
  if (!collection.count) {
    say($("search-status"), "The collection is empty: add items, and they can be found at once.", "empty");
    return;
  }
  say($("search-status"), "Some of what is here. Search for it, or explore the collection by its codes.");
  $("results").replaceChildren(...collection.items.map((item) => card(item, { onSimilar: () => searchSimilar(item) })));
}

export function start() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (near && $("text").value.trim()) choose(null, null);
    lastSearch = null;
    submit();
  });
  for (const radio of document.querySelectorAll("input[name=want]")) radio.addEventListener("change", submit);
  watchImages(searchByImage);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (!location.hash.startsWith("#/search")) location.hash = "#/search";
      $("search").hidden = false; // a hidden element can't have the focus, and the address is read later
      $("text").focus();
    }
  });
}
