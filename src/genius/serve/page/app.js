// The page: two views, and an address for each state.

import { $ } from "./dom.js";
import { show as explore } from "./explore.js";
import { learn } from "./facts.js";
import { show as search, start } from "./search.js";

const PREFIX = /^(?:(?:\*|\d+)(?:-\d+)*)?$/;

function route() {
  const [path, parts] = location.hash.slice(1).split(/\?(.*)/s);
  const exploring = path.startsWith("/explore");
  $("search").hidden = exploring;
  $("explore").hidden = !exploring;
  for (const [id, here] of [["tab-search", !exploring], ["tab-explore", exploring]]) {
    if (here) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  document.title = exploring ? "genius · Explore" : "genius · Search";
  if (exploring) {
    const prefix = decodeURIComponent(path.slice("/explore/".length));
    window.scrollTo(0, 0);
    explore(PREFIX.test(prefix) ? prefix : "");
  } else {
    search(new URLSearchParams(parts ?? ""));
  }
}

start();
window.addEventListener("hashchange", route);
learn().then(route);
