// @npmcli/config has no types; this declares the parts that are used here.
declare module '@npmcli/config' {
  export default class Config {
    constructor(options: Readonly<Record<string, unknown>>)
    load(): Promise<void>
    readonly flat: Record<string, unknown>
  }
}

declare module '@npmcli/config/lib/definitions/index.js' {
  const definitions: Readonly<Record<string, unknown>>
  export default definitions
}
