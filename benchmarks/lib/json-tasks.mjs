/** Answers in JSON with the constraints that they keep to, in the styles in which models write. */
const person = {
  type: 'object',
  properties: {
    full_name: { type: 'string' },
    date_of_birth: { type: 'string' },
    occupation: { type: 'string' },
    nationality: { type: 'string' },
    is_alive: { type: 'boolean' },
  },
  required: ['full_name', 'date_of_birth', 'occupation', 'nationality', 'is_alive'],
  additionalProperties: false,
}
const order = {
  type: 'object',
  properties: {
    customer: {
      type: 'object',
      properties: { name: { type: 'string' }, email: { type: 'string' } },
      required: ['name', 'email'],
      additionalProperties: false,
    },
    items: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          product: { type: 'string' },
          quantity: { type: 'integer' },
          unit_price: { type: 'number' },
        },
        required: ['product', 'quantity', 'unit_price'],
        additionalProperties: false,
      },
    },
    status: { enum: ['pending', 'confirmed', 'delivered'] },
  },
  required: ['customer', 'items', 'status'],
  additionalProperties: false,
}
const review = {
  type: 'object',
  properties: {
    summary: { type: 'string' },
    sentiment: { enum: ['positive', 'negative', 'neutral'] },
    score: { type: 'integer' },
    keywords: { type: 'array', items: { type: 'string' } },
  },
  required: ['summary', 'sentiment', 'score', 'keywords'],
  additionalProperties: false,
}
const ada = {
  full_name: 'Ada Lovelace',
  date_of_birth: '1815-12-10',
  occupation: 'mathematician and writer',
  nationality: 'English',
  is_alive: false,
}
const bought = {
  customer: { name: 'Maria Keller', email: 'maria.keller@example.org' },
  items: [
    { product: 'garden chair', quantity: 4, unit_price: 39.9 },
    { product: 'parasol', quantity: 1, unit_price: 74.5 },
  ],
  status: 'confirmed',
}
const told = {
  summary: 'The film takes its time, but the last half hour is worth the wait.',
  sentiment: 'positive',
  score: 8,
  keywords: ['slow', 'well acted', 'ending'],
}

/** JSON with blanks, as Python writes it. */
const spaced = (value) =>
  JSON.stringify(value, undefined, 1)
    .replaceAll(/\n *(?=[\]}])|(?<=[[{])\n */g, '')
    .replaceAll(/\n */g, ' ')

const call = (name, properties) => ({
  type: 'object',
  properties: {
    name: { const: name },
    arguments: {
      type: 'object',
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
    },
  },
  required: ['name', 'arguments'],
  additionalProperties: false,
})
const tools = {
  type: 'triggered-json',
  trigger: '<tool_call>',
  closing: '</tool_call>',
  schema: {
    anyOf: [
      call('get_weather', { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] } }),
      call('search_flights', {
        origin: { type: 'string' },
        destination: { type: 'string' },
        departure_date: { type: 'string' },
      }),
    ],
  },
}
const called = (name, fields) => `<tool_call>\n${spaced({ name, arguments: fields })}\n</tool_call>`

const schema = (of) => ({ type: 'json-schema', schema: of })

export const jsonTasks = [
  { kind: 'with blanks', constraint: schema(person), answer: spaced(ada) },
  { kind: 'with blanks', constraint: schema(order), answer: spaced(bought) },
  { kind: 'with blanks', constraint: schema(review), answer: spaced(told) },
  { kind: 'compact', constraint: schema(person), answer: JSON.stringify(ada) },
  { kind: 'compact', constraint: schema(order), answer: JSON.stringify(bought) },
  { kind: 'compact', constraint: schema(review), answer: JSON.stringify(told) },
  { kind: 'indented', constraint: schema(person), answer: JSON.stringify(ada, undefined, 2) },
  { kind: 'indented', constraint: schema(order), answer: JSON.stringify(bought, undefined, 2) },
  { kind: 'indented', constraint: schema(review), answer: JSON.stringify(told, undefined, 2) },
  {
    kind: 'tool call',
    constraint: tools,
    answer: called('get_weather', { city: 'Reykjavik', unit: 'celsius' }),
  },
  {
    kind: 'tool call',
    constraint: tools,
    answer: called('search_flights', {
      origin: 'Zurich',
      destination: 'Lisbon',
      departure_date: '2027-03-14',
    }),
  },
]
