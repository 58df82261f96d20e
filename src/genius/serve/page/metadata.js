// Metadata as people read them: a few facts on a card, all of them beside a large picture.

import { make } from "./dom.js";

const ON_A_CARD = 3;
const MAX_LENGTH = 40; // of a text on a card
const DATE = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d))?/;
const COORDINATES = /^(?:lat|latitude|lon|lng|longitude)$/i;
const LINK = /^https?:\/\/\S+$/;

/** Whether a key is of less interest: a coordinate, or one inside of what a table kept as JSON text. */
export const isMinor = (key) => COORDINATES.test(key) || key.includes(".");

/** A key as it is shown: the last part of one inside of JSON text. */
export const keyName = (key) => key.slice(key.lastIndexOf(".") + 1) || key;

export const isLink = (value) => LINK.test(value);

/** A value as a text: dates and large numbers in a readable form, `brief` without the time of day. */
export function formatValue(value, brief = false) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") {
    if (value !== 0 && Math.abs(value) < 1e-4) return String(value);
    const useGrouping = Math.abs(value) >= 10000; // a year is not written with a comma
    return value.toLocaleString("en", { maximumFractionDigits: 6, useGrouping });
  }
  const [, year, number, day, hour, minute] = DATE.exec(value) ?? [];
  if (!year) return String(value);
  const date = new Date(Date.UTC(year, number - 1, day)); // what the clock showed there, whatever the time zone
  const month = brief ? "short" : "long";
  const written = date.toLocaleDateString("en-GB", { timeZone: "UTC", day: "numeric", month, year: "numeric" });
  return hour && !brief ? `${written}, ${hour}:${minute}` : written;
}

/** The entries of metadata; what a table kept as JSON text is looked into. */
function entries(metadata) {
  return Object.entries(metadata).flatMap(([key, value]) => {
    if (value === null || value === "") return [];
    if (typeof value !== "string" || !value.startsWith("{")) return [[key, value]];
    try {
      const inside = Object.entries(JSON.parse(value)).filter(([, inner]) => inner !== null && typeof inner !== "object");
      return inside.map(([name, inner]) => [`${key}.${name}`, inner]);
    } catch {
      return [[key, value]];
    }
  });
}

/** How early an entry comes on a card: what one sorts or filters by, numbers, dates, words. */
function priority([key, value], keys) {
  if (keys.includes(key)) return 0;
  if (isMinor(key)) return 5;
  if (typeof value === "string") return DATE.test(value) ? 2 : 3;
  return typeof value === "number" ? 1 : 4;
}

function list(pairs, format) {
  if (!pairs.length) return null;
  const rows = pairs.map(([key, value]) => make("div", {}, make("dt", { text: keyName(key), title: key }), make("dd", {}, format(value))));
  return make("dl", { class: "facts-of" }, ...rows);
}

function inFull(value) {
  if (!isLink(value)) return formatValue(value);
  return make("a", { href: value, rel: "noopener noreferrer", target: "_blank", text: value });
}

/** The few entries that matter most on a card; `keys` are those that one sorts or filters by. */
export function cardMetadata(metadata, keys = []) {
  const brief = (value) => formatValue(value, true);
  const fits = ([key, value]) => !COORDINATES.test(key) && !isLink(value) && brief(value).length <= MAX_LENGTH;
  const chosen = entries(metadata).filter(fits).sort((a, b) => priority(a, keys) - priority(b, keys));
  return list(chosen.slice(0, ON_A_CARD), brief);
}

/** All entries. */
export const allMetadata = (metadata) => list(entries(metadata), inFull);
