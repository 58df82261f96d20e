// Elements built without HTML in strings: what comes from the collection is only ever text.

export const $ = (id) => document.getElementById(id);

/** An element with properties (class, text, attributes, on…) and children. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The title of the tab. */
export function setTitle(title) {
  document.title = title ? `${title} · genius` : "genius";
}

export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export const items = (number) => count(number, "item", "items");

const NAMES = { image: "Picture", text: "Text", pair: "Pair" };
export const MODALITIES = ["Pictures", "Texts", "Pairs"];
export const modalityName = (modality) => NAMES[modality] ?? modality;

const LONG_NAME = 64; // letters of a file's name that are shown at most; of a longer one its start and its end
const END = 20;

/** A path: its folders in a line, which may be cut, and its file's name, on as many lines as it takes. */
export function pathLine(path) {
  const start = path.lastIndexOf("/") + 1;
  const letters = [...path.slice(start)]; // whole ones
  const name = letters.length > LONG_NAME ? [...letters.slice(0, LONG_NAME - END - 1), "…", ...letters.slice(-END)] : letters;
  return make(
    "p",
    { class: "id", title: path },
    start ? make("span", { class: "folder", text: path.slice(0, start) }) : null,
    make("span", { class: "name", text: name.join("") }),
  );
}

/** A sentence that begins with a capital letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Grey shapes in place of what is being loaded. */
export function ghosts(number, kind, name = "li") {
  return Array.from({ length: number }, () => make(name, { class: `ghost ${kind}`, "aria-hidden": "true" }));
}

/** Show a message in a status area, with a button if there is something to do about it. */
export function say(area, message, kind = "", action = null) {
  area.className = `status ${kind}`;
  area.replaceChildren();
  if (!message) return;
  area.append(make("p", { text: message }));
  if (action) area.append(make("button", { type: "button", class: "quiet", text: action.text, onclick: action.run }));
}

/** Move the focus to `target` if the element that had it is gone, hidden or `before`. */
export function moveFocus(target, before = null) {
  const focused = document.activeElement;
  const lost = !focused || focused === document.body || focused === before || focused.closest("[hidden]");
  if (!lost) return; // the user has moved it meanwhile
  target.focus({ preventScroll: true });
}
