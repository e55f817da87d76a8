import type { MediaShape, MediaType } from '@cllm/core'
import { llamaVersion } from '../native.js'
import {
  addressOf,
  bindMediaFunctions,
  type MediaFunctions,
  runAsync,
  viewMemory,
} from './bind-functions.js'
import { decodeWebp, isWebp, lowDetail, shrinkImage } from '../../media/picture.js'
import type { Pointer } from './structs.js'

/** Options of {@link MediaLibrary.open}. */
export interface MediaLibraryOptions {
  /** The library: llama.cpp's `libmtmd`, or one that contains all of llama.cpp. */
  readonly library: string
  /** The text model; its weights are not read. */
  readonly modelPath: string
  /** The projector. */
  readonly mmprojPath: string
  readonly threads: number
  /** llama.cpp's library for a GPU, of the same release; default: the CPU encodes. */
  readonly gpuLibrary?: string | undefined
}

/** A piece of an image or a sound as a model reads it: tokens of its vocabulary, or vectors. */
export type MediaPiece =
  | { readonly tokens: readonly number[] }
  | { readonly count: number; readonly vectors: Float32Array; readonly shape?: MediaShape }

/** `MTMD_INPUT_CHUNK_TYPE_TEXT` and `…_IMAGE` */
const [textChunk, imageChunk] = [0, 1] as const

/** A projector, used through libmtmd's C API. Not for concurrent calls: llama.cpp encodes one file at a time. */
export class MediaLibrary {
  private constructor(
    private readonly functions: MediaFunctions,
    private readonly context: Pointer,
  ) {}

  /** @throws Error that says what cannot be loaded or is not supported */
  static async open(options: MediaLibraryOptions): Promise<MediaLibrary> {
    const { library, modelPath, mmprojPath, threads, gpuLibrary } = options
    const functions = bindMediaFunctions(library)
    const version = functions.llama_version()
    if (version !== llamaVersion) {
      throw new Error(`expected llama.cpp ${llamaVersion}, got ${version} in ${library}`)
    }
    const params = functions.mtmd_context_params_default()
    const isLaidOut = params.batch_max_tokens === 1024 && params.image_max_tokens === -1
    if (!isLaidOut) throw new Error(`${library} lays mtmd_context_params out differently`)
    const useGpu = gpuLibrary !== undefined
    if (useGpu && functions.ggml_backend_load(gpuLibrary) === null) {
      throw new Error(`${gpuLibrary} cannot be loaded beside ${library}`)
    }
    functions.llama_backend_init()
    const model = await runAsync(functions.llama_model_load_from_file, modelPath, {
      ...functions.llama_model_default_params(),
      // loads only the shape and the vocabulary, against which libmtmd checks the projector
      no_alloc: true,
      n_gpu_layers: 0,
      load_mode: 0,
    })
    if (model === null) throw new Error(`${modelPath} cannot be read`)
    const context = await runAsync(functions.mtmd_init_from_file, mmprojPath, model, {
      ...params,
      use_gpu: useGpu,
      n_threads: threads,
      print_timings: false,
    })
    if (context === null) {
      throw new Error(
        `${mmprojPath} cannot be loaded: it is no projector, or one for another model`,
      )
    }
    return new MediaLibrary(functions, context)
  }

  /** The kinds of files that the projector can encode. */
  get types(): MediaType[] {
    const { mtmd_support_vision: sees, mtmd_support_audio: hears } = this.functions
    return [
      ...(sees(this.context) ? (['image'] as const) : []),
      ...(hears(this.context) ? (['audio'] as const) : []),
    ]
  }

  /**
   * Encodes a file, and reports its pieces in order.
   * @param width - the length of a vector
   * @param detail - `low`: shrinks an image first
   * @param onCounted - called with all pieces before the first is encoded; their vectors are empty
   * @param onPiece - called with each piece; its vectors are llama.cpp's own memory, only valid until the call returns
   * @throws Error if libmtmd cannot read or encode the file
   */
  async encode(
    file: Uint8Array<ArrayBuffer>,
    width: number,
    detail: 'low' | undefined,
    onCounted: (pieces: readonly MediaPiece[]) => void,
    onPiece: (piece: MediaPiece) => void,
  ): Promise<void> {
    const functions = this.functions
    const whole = await this.#decoded(file)
    if (whole === null) throw new UnreadableFile('the file cannot be decoded')
    const bitmap = detail === 'low' ? this.#shrunk(whole) : whole
    const chunks = functions.mtmd_input_chunks_init()
    try {
      // one `mtmd_input_part` without text, and a list of this part
      const part = new BigUint64Array(new ArrayBuffer(16))
      part[1] = bitmap
      const list = new BigUint64Array(new ArrayBuffer(8)).fill(addressOf(part) ?? 0n)
      const tokenize = functions.mtmd_tokenize_from_parts
      const result = await runAsync(tokenize, this.context, chunks, list, 1, false)
      // the list only contains the part's address, so this reference keeps the part from being collected before
      void part.length
      if (result !== 0) throw new UnreadableFile(`libmtmd cannot prepare this file (${result})`)
      const length = functions.mtmd_input_chunks_size(chunks)
      const pieceAt = async (index: number, width = 0) =>
        await this.#piece(functions.mtmd_input_chunks_get(chunks, index), width)
      onCounted(await Promise.all(Array.from({ length }, async (_, index) => await pieceAt(index))))
      for (let index = 0; index < length; index++) onPiece(await pieceAt(index, width))
    } finally {
      functions.mtmd_input_chunks_free(chunks)
      functions.mtmd_bitmap_free(bitmap)
    }
  }

  /** A file as a bitmap; null if it cannot be decoded. */
  async #decoded(file: Uint8Array<ArrayBuffer>): Promise<Pointer> {
    const functions = this.functions
    if (isWebp(file)) {
      const picture = decodeWebp(file)
      if (picture === undefined) return null
      return functions.mtmd_bitmap_init(picture.width, picture.height, picture.pixels)
    }
    const options = {
      ...functions.mtmd_helper_init_opt_default(),
      // a library with support for videos would start ffmpeg for files that it cannot read
      ffmpeg_bin_dir: '/dev/null',
    }
    const read = functions.mtmd_helper_bitmap_init_from_buf
    return (await runAsync(read, this.context, file, file.length, false, options)).bitmap
  }

  /** Replaces an image with a smaller one of low detail, if it is larger; frees the original then. */
  #shrunk(bitmap: NonNullable<Pointer>): NonNullable<Pointer> {
    const functions = this.functions
    if (functions.mtmd_bitmap_is_audio(bitmap)) return bitmap
    const width = functions.mtmd_bitmap_get_nx(bitmap)
    const height = functions.mtmd_bitmap_get_ny(bitmap)
    const data = viewMemory(functions.mtmd_bitmap_get_data(bitmap), 3 * width * height)
    const small = shrinkImage({ width, height, pixels: new Uint8Array(data) }, lowDetail)
    if (small.width === width && small.height === height) return bitmap
    const shrunk = functions.mtmd_bitmap_init(small.width, small.height, small.pixels)
    functions.mtmd_bitmap_free(bitmap)
    return shrunk!
  }

  /** A piece; without vectors if their width is 0. */
  async #piece(chunk: Pointer, width: number): Promise<MediaPiece> {
    const functions = this.functions
    if (functions.mtmd_input_chunk_get_type(chunk) === textChunk) {
      const size = new BigUint64Array(new ArrayBuffer(8))
      const tokens = functions.mtmd_input_chunk_get_tokens_text(chunk, size)
      const count = Number(size[0])
      return { tokens: [...new Int32Array(viewMemory(tokens, 4 * count))] }
    }
    const count = functions.mtmd_input_chunk_get_n_tokens(chunk)
    const shape = this.#shapeOf(chunk, count)
    const more = shape !== undefined && { shape }
    if (width === 0) return { count, vectors: new Float32Array(), ...more }
    const result = await runAsync(functions.mtmd_encode_chunk, this.context, chunk)
    if (result !== 0) throw new Error(`libmtmd could not encode the file (${result})`)
    const output = functions.mtmd_get_output_embd(this.context)
    const vectors = new Float32Array(viewMemory(output, 4 * count * width))
    return { count, vectors, ...more }
  }

  #shapeOf(chunk: Pointer, length: number): MediaShape | undefined {
    const functions = this.functions
    const isWhole = functions.mtmd_decode_use_non_causal(this.context, chunk)
    const isImage = functions.mtmd_input_chunk_get_type(chunk) === imageChunk
    if (!isImage || !functions.mtmd_decode_use_mrope(this.context)) {
      return isWhole ? { length, isWhole } : undefined
    }
    const image = functions.mtmd_input_chunk_get_tokens_image(chunk)
    const placeOf = functions.mtmd_image_tokens_get_decoder_pos
    const last = placeOf(image, 0, length - 1)
    const columns = last.x + 1
    const positions = functions.mtmd_input_chunk_get_n_pos(chunk)
    const isGrid = last.t === 0 && columns * (last.y + 1) === length
    if (!isGrid) throw new Error('the positions of this image are no grid, and are not served')
    return { length, positions, columns, ...(isWhole && { isWhole }) }
  }
}

/** The error if a file cannot be read, as opposed to a failure of the encoder. */
export class UnreadableFile extends Error {}
