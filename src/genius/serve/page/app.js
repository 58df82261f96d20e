// The page: two views, and a URL for each state.

import { $ } from "./dom.js";
import { show as explore } from "./explore.js";
import { loadFacts } from "./facts.js";
import { show as search, start } from "./search.js";

const PREFIX = /^(?:(?:\*|\d+)(?:-\d+)*)?$/;

/** The prefix in the path of an address, or null if it is none. */
function parsePrefix(path) {
  try {
    const prefix = decodeURIComponent(path.slice("/explore/".length));
    return PREFIX.test(prefix) ? prefix : null;
  } catch {
    return null; // a percent sign without a valid code behind it
  }
}

function route() {
  const [path, parameters] = location.hash.slice(1).split(/\?(.*)/s);
  const exploring = path.startsWith("/explore");
  $("why").close(); // it explains a hit of the view before
  $("search").hidden = exploring;
  $("explore").hidden = !exploring;
  for (const [id, current] of [["tab-search", !exploring], ["tab-explore", exploring]]) {
    if (current) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  document.title = exploring ? "genius · Explore" : "genius · Search";
  if (exploring) {
    window.scrollTo(0, 0);
    explore(parsePrefix(path));
  } else {
    search(new URLSearchParams(parameters ?? ""));
  }
}

start();
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the link's own address would be read as an empty search
  $("main").focus();
});
window.addEventListener("hashchange", route);
loadFacts().then(route);
