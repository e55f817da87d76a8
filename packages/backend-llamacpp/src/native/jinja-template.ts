/** A compiled chat template. */
export interface JinjaTemplate {
  /** Throws where the template refuses the values. */
  render(values: Record<string, unknown>): string
}
