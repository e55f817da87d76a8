/**
 * Most tokens of an answer where neither the chat nor its user sets a limit, by model: on the page and in
 * `cllm run`. The 2-bit stand-in for a model may repeat itself until its slot is full.
 */
const answerLimits: ReadonlyMap<string, number> = new Map([['tinyllama-1.1b-chat', 512]])

/** The limit for this model; undefined: none. */
export const answerLimit = (model: string): number | undefined => answerLimits.get(model)
