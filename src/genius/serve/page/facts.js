// What the service says about its index, for all views.

import * as api from "./api.js";
import { $, items } from "./dom.js";

export const facts = { items: 0, modalities: {}, modality_first: true, levels: [], facets: [], paths: false };

export async function loadFacts() {
  try {
    Object.assign(facts, await api.about());
    $("facts").textContent = items(facts.items);
  } catch {
    $("facts").textContent = "";
  }
}

/** Load what items can be filtered and sorted by. */
export async function loadFacets() {
  try {
    facts.facets = (await api.facets()).facets;
  } catch { /* the page works without filters */ }
}

/** Whether the collection has texts without a picture beside items with one; true if that is not known. */
export function isMixed() {
  const { image = 0, text = 0, pair = 0 } = facts.modalities;
  return image + text + pair === 0 || (text > 0 && image + pair > 0);
}
