// The page: two views, and a URL for each state.

import { currentAddress } from "./address.js";
import { $, setTitle } from "./dom.js";
import { show as overview } from "./collection.js";
import { loadFacets, loadFacts } from "./facts.js";
import { show as search, showFacets, start as startSearch } from "./search.js";
import { show as view, start as startViewer } from "./viewer.js";

function route() {
  const { path, parameters } = currentAddress();
  const exploring = path.startsWith("/explore");
  $("why").close(); // it explains a hit of the view before
  $("search").hidden = exploring;
  $("explore").hidden = !exploring;
  for (const [id, current] of [["tab-search", !exploring], ["tab-explore", exploring]]) {
    if (current) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  if (exploring) {
    setTitle("Explore");
    overview(path.slice("/explore/".length), parameters);
  } else {
    search(parameters);
  }
  view(parameters.get("item"));
}

history.scrollRestoration = "manual"; // what one goes back to is not there yet when the browser would scroll
startSearch();
startViewer();
$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the link's own address would be read as an empty search
  $("main").focus();
});
window.addEventListener("hashchange", route);
loadFacts().then(() => {
  route();
  loadFacets().then(showFacets); // they take longer, and a search need not wait for them
});
