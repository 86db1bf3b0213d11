// The last minutes of figures, in memory of the page alone.

/** Samples that are kept: ten minutes, one a second. */
export const KEPT = 600;

export class History {
  #samples = [];

  /** Adds a sample: `{ at, … }`, its time in milliseconds. */
  add(sample) {
    this.#samples.push(sample);
    if (this.#samples.length > KEPT) this.#samples.shift();
  }

  clear() {
    this.#samples = [];
  }

  get samples() {
    return this.#samples;
  }
}
