/** A name in camelCase as the fields of the APIs are written: `logitBias` is `logit_bias`. */
export const snakeCase = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
