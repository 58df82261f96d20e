// The page: two views, and an address for each state.

import { $ } from "./dom.js";
import { show as explore } from "./explore.js";
import { learn } from "./facts.js";
import { show as search, start } from "./search.js";

const PREFIX = /^(?:(?:\*|\d+)(?:-\d+)*)?$/;

/** The code that an address names, or null if it can't be one. */
function prefixIn(path) {
  try {
    const prefix = decodeURIComponent(path.slice("/explore/".length));
    return PREFIX.test(prefix) ? prefix : null;
  } catch {
    return null; // a percent sign that stands for no letter
  }
}

function route() {
  const [path, parts] = location.hash.slice(1).split(/\?(.*)/s);
  const exploring = path.startsWith("/explore");
  $("why").close(); // it is about what was shown before
  $("search").hidden = exploring;
  $("explore").hidden = !exploring;
  for (const [id, here] of [["tab-search", !exploring], ["tab-explore", exploring]]) {
    if (here) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  document.title = exploring ? "genius · Explore" : "genius · Search";
  if (exploring) {
    window.scrollTo(0, 0);
    explore(prefixIn(path));
  } else {
    search(new URLSearchParams(parts ?? ""));
  }
}

start();
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be taken for an empty search
  $("main").focus();
});
window.addEventListener("hashchange", route);
learn().then(route);
