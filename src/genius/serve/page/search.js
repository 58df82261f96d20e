// The search view: by words, an image or both, for more like an item, or by filters alone.

import { addressOf } from "./address.js";
import * as api from "./api.js";
import { $, ghosts, make, moveFocus, say, setTitle } from "./dom.js";
import { isMixed } from "./facts.js";
import { describeFilter, filter, showFilters, sort, watchFilters } from "./filters.js";
import { keepImage, keptImage, preview, showChosen, watchImages } from "./image.js";
import { find, loadSamples, present, welcome } from "./results.js";
import { tile } from "./tiles.js";

const KEPT = 8; // searches that one can go back to as they were left
let image = null; // the name of the kept image to search by
let near = null; // the id of the item to find more like
let nearName = ""; // what it is called, once that is known
let everything = false; // whether all items are to be listed, without a search
let running = null; // the controller of the search under way
let lastSearch = null; // what the results show
const left = new Map(); // the results of earlier searches, as they were left

const wanted = () => document.querySelector("input[name=want]:checked").value;
const words = () => $("text").value.trim();
const hasQuery = () => Boolean(near || image || words());

/** The address of the search that the form describes. */
function address() {
  const leaning = balance() ? $("balance").value : "";
  const query = near ? { near } : { q: words(), image, b: leaning, i: $("instruction").value.trim() };
  const chosen = { ...query, want: wanted(), filter: filter() && JSON.stringify(filter()), sort: sort(), all: everything && "1" };
  const given = Object.entries(chosen).filter(([, value]) => value);
  return addressOf("/search", new URLSearchParams(given));
}

/** How much the words count beside the image: from -1, the image alone, over 0, both as one, to 1, the words alone. */
const balance = () => (image && words() ? Number($("balance").value) / 50 - 1 : 0);

/** The fields that weigh words and image: both as one, and one of them once more by itself. */
function weightFields() {
  const lean = balance();
  const by = Number(Math.abs(lean).toFixed(2));
  if (!lean || by === 1) return {};
  const own = { weight: Number((1 - by).toFixed(2)) };
  return lean > 0 ? { ...own, plus: [{ text: words(), weight: by }] } : { ...own, plus_image_weight: by };
}

/** The JSON fields of the search that the form describes, without its image. */
function requestFields() {
  const text = balance() === -1 ? "" : words();
  const query = near ? { near } : { text, instruction: $("instruction").value.trim(), ...weightFields() };
  const fields = { ...query, want: wanted(), filter: filter(), sort: sort() };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
}

/** The image to search by, unless the words alone count. */
const requestImage = () => (balance() === 1 ? null : keptImage(image));

/** Show the slider between image and words where there are both. */
function showBalance() {
  $("balance-row").hidden = !(image && words());
}

/** Set the form to the parameters of an address, and search. */
export function show(parameters) {
  const name = parameters.get("image");
  choose(parameters.get("near") || null, keptImage(name) && name);
  $("text").value = near ? "" : parameters.get("q") ?? "";
  $("instruction").value = near ? "" : parameters.get("i") ?? "";
  $("balance").value = parameters.get("b") ?? 50;
  showBalance();
  const radio = document.querySelector(`input[name=want][value="${CSS.escape(parameters.get("want") ?? "")}"]`);
  if (radio) radio.checked = true;
  $("want").hidden = !isMixed() && !wanted();
  everything = parameters.has("all");
  showFilters(parameters.get("filter"), parameters.get("sort"), hasQuery());
  if (name !== image) history.replaceState(null, "", address()); // a reload has lost the image
  setTitle(title());
  run();
}

/** Offer what items can be filtered by, once that is known. */
export function showFacets() {
  showFilters(filter() && JSON.stringify(filter()), sort(), hasQuery());
  if (!$("search").hidden && filter()) setTitle(title()); // which knows now how to write it
}

function title() {
  if (near) return nearName ? `Like ${nearName}` : "More like this";
  return words() || (image ? "By a picture" : filter() ? describeFilter() : everything ? "Everything" : "Search");
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
  if (!image) $("balance").value = 50;
  showBalance();
}

function showNear(id) {
  showChosen(make("span", { class: "like", text: "like this" }), "an item", clearChosen);
  nearName = "";
  api.item(id).then((item) => {
    if (near !== id) return;
    nearName = item.text || item.id;
    showChosen(tile(item, 96), nearName, clearChosen);
    if (!$("search").hidden) setTitle(title());
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
  const key = JSON.stringify([requestFields(), requestImage() && image, everything]);
  if (key !== lastSearch) {
    leave();
    lastSearch = key;
    if (left.has(key)) comeBack(left.get(key));
    else search(requestFields(), requestImage());
  }
  moveFocus($("search-status"));
}

/** Keep the results, to come back to them as they are. */
function leave() {
  if (lastSearch === null || $("results").hasAttribute("aria-busy")) return;
  left.delete(lastSearch);
  const [status, results] = [$("search-status"), $("results")].map((area) => [...area.childNodes]);
  left.set(lastSearch, { status, results, kind: $("search-status").className, scroll: window.scrollY });
  if (left.size > KEPT) left.delete(left.keys().next().value);
}

function comeBack({ status, results, kind, scroll }) {
  running?.abort();
  running = null;
  $("results").removeAttribute("aria-busy");
  $("results").replaceChildren(...results);
  $("search-status").className = kind;
  $("search-status").replaceChildren(...status);
  window.scrollTo(0, scroll);
}

async function search(fields, file) {
  running?.abort();
  const controller = (running = new AbortController());
  const empty = !Object.keys(fields).length && !file && !everything;
  say($("search-status"), empty ? "Loading…" : "Searching…");
  $("results").setAttribute("aria-busy", "true");
  $("results").replaceChildren(make("ol", { class: "grid" }, ...ghosts(empty ? 0 : 12, "tall")));
  window.scrollTo(0, 0);
  try {
    if (empty) {
      const collection = await loadSamples(controller.signal);
      if (controller === running) welcome(collection);
    } else {
      const lists = await find(fields, file, controller.signal);
      if (controller === running) present(lists, fields, file, waysOut(fields));
    }
  } catch (error) {
    if (error.name === "AbortError" || controller !== running) return;
    lastSearch = null;
    $("results").replaceChildren();
    say($("search-status"), error.message, "wrong", { text: "Try again", run });
  } finally {
    if (controller === running) $("results").removeAttribute("aria-busy");
  }
}

/** What to offer if nothing was found. */
function waysOut(fields) {
  const anything = () => {
    document.querySelector("input[name=want]").checked = true;
    submit();
  };
  const unfiltered = () => {
    showFilters(null, sort(), hasQuery());
    submit();
  };
  return [
    { applies: fields.filter, text: "Search without filters", run: unfiltered },
    { applies: fields.want, text: "Search for anything", run: anything },
  ];
}

export function start() {
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (near && words()) choose(null, null);
    everything = false;
    lastSearch = null;
    left.clear(); // whoever asks again wants to know what is new
    submit();
  });
  for (const radio of document.querySelectorAll("input[name=want]")) radio.addEventListener("change", submit);
  $("text").addEventListener("input", showBalance);
  $("balance").addEventListener("change", submit);
  watchFilters(submit);
  watchImages(searchByImage);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (!location.hash.startsWith("#/search")) location.hash = "#/search";
      $("search").hidden = false; // a hidden element can't have the focus, and the address is read later
      $("text").focus();
    }
  });
}
