export { type AnswerChunk, answerLimit, type AnswerUsage, type CallDelta } from './answers.js'

/** The folder with the built page, for `webProtocol` of `@cllm/http-koa`. */
export const pageFolder: URL = new URL('bundle/', import.meta.url)
