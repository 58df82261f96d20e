// What the service says about its index, for all views.

import * as api from "./api.js";
import { $, items } from "./dom.js";

export const facts = { items: 0, modality_first: true, levels: [] };

export async function loadFacts() {
  try {
    Object.assign(facts, await api.about());
    $("facts").textContent = items(facts.items);
  } catch {
    $("facts").textContent = "";
  }
}
