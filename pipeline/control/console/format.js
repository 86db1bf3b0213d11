// Figures as texts.

const LETTERS = ["", "k", "M", "G", "T"];

/** Three digits and a letter: 1.23 M. */
export function count(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let [scaled, letter] = [value, 0];
  while (Math.abs(scaled) >= 999.5 && letter < LETTERS.length - 1) {
    scaled /= 1000;
    letter += 1;
  }
  const isWhole = letter === 0 && (Number.isInteger(scaled) || Math.abs(scaled) >= 100);
  const digits = isWhole ? 0 : Math.abs(scaled) >= 99.95 ? 0 : Math.abs(scaled) >= 9.995 ? 1 : 2;
  const text = scaled.toFixed(digits);
  return letter === 0 ? text : `${text} ${LETTERS[letter]}`;
}

/** A count where 0 is common and says nothing. */
export const countOrDot = (value) => (value === 0 ? "·" : count(value));

export function perSecond(value) {
  return `${count(value)}${value >= 999.5 ? "" : " "}/s`;
}

export function percent(share, digits = 1) {
  return share === null || share === undefined ? "–" : `${(share * 100).toFixed(digits)} %`;
}

/** Microseconds as a time. */
export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value < 999.5) return `${value < 9.95 ? value.toFixed(1) : value.toFixed(0)} µs`;
  if (value < 999_500) return `${(value / 1000).toPrecision(3)} ms`;
  return `${(value / 1e6).toPrecision(3)} s`;
}

export function bytes(value) {
  let [scaled, letter] = [value, 0];
  while (scaled >= 1024 && letter < 4) {
    scaled /= 1024;
    letter += 1;
  }
  return `${letter === 0 ? scaled : scaled.toPrecision(3)} ${["B", "KiB", "MiB", "GiB", "TiB"][letter]}`;
}

/** Seconds as a duration: 3 d 04:05:06. */
export function duration(seconds) {
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const time = `${two((seconds / 3600) % 24)}:${two((seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days > 0 ? `${days} d ${time}` : time;
}

/** Seconds since 1970 as a local date and time. */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(date)}`;
}

export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((one) => String(one).padStart(2, "0")).join(":");
}

/** How long a change holds, if that is not for good. */
export const end = (one) => (one.after_restart ? "after a restart" : one.until_restart ? "until a restart" : "");

/** Who has said something, and how long it holds. */
export const whose = (one) => [one.by, end(one)].filter(Boolean).join(", ");
