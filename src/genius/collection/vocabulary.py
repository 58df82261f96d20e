"""Words by which people name albums: everyday things, places and scenes, for collections without texts."""

from __future__ import annotations

_WORDS = """
dogs, puppies, cats, kittens, horses, cows, sheep, goats, pigs, elephants, giraffes, zebras, lions,
tigers, bears, pandas, monkeys, rabbits, squirrels, deer, foxes, wolves, birds, parrots, owls, eagles,
ducks, swans, geese, chickens, penguins, seagulls, flamingos, fish, aquariums, sharks, whales, dolphins,
turtles, frogs, snakes, lizards, insects, butterflies, bees, spiders, pets, farm animals, wild animals,
zoos

people, a person, portraits, selfies, faces, babies, children, a boy, a girl, a man, a woman, old
people, families, couples, friends, a crowd, a team, workers, cooks, doctors, musicians, dancers,
soldiers, police, students, teachers, weddings, birthdays, parties, concerts, festivals,
parades, ceremonies, meetings, graduation, Christmas, Halloween, fireworks, picnics, camping, hiking,
holidays

beaches, the sea, waves, lakes, rivers, waterfalls, mountains, hills, forests, trees, deserts, fields,
meadows, flowers, roses, gardens, parks, leaves, autumn, snow, winter, ice, rain, storms, clouds, the
sky, sunsets, sunrise, the moon, stars, night, fog, rainbows, caves, cliffs, islands, rocks, sand,
grass, plants, cactus, mushrooms, fire

cities, streets, skylines, skyscrapers, buildings, houses, apartments, castles, churches, temples,
mosques, towers, bridges, statues, monuments, ruins, fountains, markets, shops, restaurants, cafes,
bars, hotels, offices, schools, libraries, museums, hospitals, factories, farms, barns, stadiums,
swimming pools, playgrounds, airports, harbours, train stations, parking lots, roads, highways, traffic,
traffic lights, stop signs, street signs, graffiti, villages, fences, doors, windows, stairs, roofs,
lighthouses, windmills, clocks, clock towers, benches, fire hydrants

kitchens, bathrooms, bedrooms, living rooms, dining rooms, beds, sofas, chairs, tables, desks, lamps,
shelves, mirrors, curtains, carpets, fireplaces, refrigerators, ovens, sinks, toilets, bathtubs, washing
machines, televisions, computers, laptops, keyboards, phones, cameras, screens, headphones, books,
newspapers, letters, maps, documents, receipts, screenshots, charts, diagrams, drawings, paintings,
cartoons, logos, icons, signs, handwriting, toys, teddy bears, dolls, games, puzzles, balloons, candles,
gifts, vases, bottles, boxes, tools, scissors, machines, musical instruments, guitars, pianos, drums

food, meals, breakfast, lunch, dinner, pizza, burgers, sandwiches, hot dogs, pasta, noodles, rice,
sushi, soup, salad, vegetables, carrots, broccoli, tomatoes, potatoes, fruit, apples, bananas, oranges,
berries, strawberries, lemons, bread, cake, cupcakes, cookies, doughnuts, desserts, ice cream,
chocolate, sweets, cheese, eggs, meat, steak, seafood, coffee, tea, milk, juice, wine, beer, cocktails,
water, plates, bowls, cups, cutlery, groceries, snacks

cars, sports cars, old cars, trucks, vans, buses, taxis, motorcycles, bicycles, scooters, trains, trams,
subways, aeroplanes, helicopters, boats, sailing boats, ships, canoes, tractors, fire engines,
ambulances, wheels, engines, rockets, carriages

sports, football, baseball, basketball, tennis, golf, rugby, hockey, volleyball, running, cycling,
swimming, surfing, skiing, snowboarding, skateboarding, skating, climbing, riding, boxing, martial arts,
yoga, gymnastics, frisbee, kites, fishing, sailing, diving, dancing, racing

clothes, shirts, T-shirts, dresses, skirts, trousers, jeans, shorts, jackets, coats, suits, ties,
sweaters, socks, shoes, sneakers, boots, sandals, high heels, hats, caps, scarves, gloves, bags,
handbags, backpacks, suitcases, umbrellas, glasses, sunglasses, watches, jewellery, necklaces, earrings,
rings, belts, wallets, swimwear, underwear, uniforms, costumes, masks, make-up, perfume, hair, tattoos

hands, feet, eyes, smiles, hearts, arrows, flags, numbers, letters of the alphabet, symbols, patterns,
textures, shadows, reflections, silhouettes, black and white photos, close-ups, aerial views, light
trails, abstract art
"""

_BROADER = {
    "food": """
food, meals, breakfast, lunch, dinner, pizza, burgers, sandwiches, hot dogs, pasta, noodles, rice, sushi,
soup, salad, bread, cheese, eggs, meat, steak, seafood, plates, bowls, cutlery, potatoes, tomatoes,
vegetables, carrots, broccoli, desserts, snacks""",
    "fruit and vegetables": """
vegetables, carrots, broccoli, tomatoes, potatoes, fruit, apples, bananas, oranges, berries, strawberries,
lemons, groceries""",
    "desserts": """
cake, cupcakes, cookies, doughnuts, desserts, ice cream, chocolate, sweets, berries, strawberries""",
    "drinks": "coffee, tea, milk, juice, wine, beer, cocktails, bottles, cups, glasses, water",
    "people": """
people, a person, portraits, selfies, faces, babies, children, a boy, a girl, a man, a woman, old people,
families, couples, friends, a team, workers, doctors, dancers, musicians, soldiers, police, students,
teachers, hands, feet, eyes, smiles, hair, glasses, sunglasses, hats, ties, suits, shirts, dresses,
underwear, swimwear, uniforms, costumes, jewellery, earrings, necklaces, make-up, tattoos""",
    "animals": """
dogs, puppies, cats, kittens, horses, cows, sheep, goats, pigs, elephants, giraffes, zebras, lions,
tigers, bears, pandas, monkeys, rabbits, squirrels, deer, foxes, wolves, birds, parrots, owls, eagles,
ducks, swans, geese, chickens, penguins, seagulls, flamingos, fish, sharks, whales, dolphins, turtles,
frogs, snakes, lizards, insects, butterflies, bees, spiders, pets, farm animals, wild animals, zoos""",
    "farm animals": "farm animals, cows, horses, goats, sheep, pigs, chickens, farms, meadows, fields",
    "ball games": """
sports, football, baseball, basketball, tennis, golf, rugby, hockey, volleyball, frisbee, a team,
stadiums, running, boxing""",
    "things": """
tools, scissors, machines, boxes, bottles, vases, balloons, candles, gifts, dolls, keyboards, phones,
cameras, headphones, books, letters, newspapers, handwriting, diagrams, drawings, documents, maps, charts,
icons, logos, symbols, signs, cutlery, close-ups, patterns, textures, screens, glasses, watches, wallets,
bags, toys, puzzles, games, receipts, reflections, shadows, numbers, letters of the alphabet""",
    "streets": """
streets, street signs, stop signs, traffic lights, traffic, roads, highways, signs, parking lots, taxis""",
    "buildings": """
buildings, houses, skyscrapers, churches, towers, castles, temples, mosques, clock towers, clocks,
monuments, windows, roofs""",
    "shops and restaurants": "shops, restaurants, cafes, bars, markets, dining rooms, groceries, meetings",
    "living rooms and bedrooms": """
living rooms, bedrooms, beds, sofas, chairs, tables, lamps, curtains, carpets, fireplaces""",
    "kitchens": "kitchens, ovens, refrigerators, sinks, shelves",
    "bathrooms": "bathrooms, toilets, bathtubs, sinks, mirrors, washing machines",
    "computers": "computers, laptops, keyboards, screens, desks, televisions, offices, phones",
    "parks and gardens": """
parks, gardens, benches, meadows, grass, plants, trees, flowers, fields, forests, playgrounds""",
    "flowers": "flowers, roses, plants, vases, leaves, gardens",
    "mountains and lakes": "mountains, hills, lakes, rivers, waterfalls, forests, cliffs",
    "beaches and the sea": "beaches, the sea, waves, islands, sand, surfing, swimming, cliffs",
    "boats": "boats, sailing boats, ships, canoes, harbours, sailing",
    "trains": "trains, train stations, trams, subways",
    "aeroplanes": "aeroplanes, airports, helicopters, rockets",
    "people at the table": """
cooks, dinner, restaurants, cafes, bars, cocktails, wine, birthdays, parties, tables, dining rooms,
friends, families, students, meetings""",
}


def _split(words: str) -> list[str]:
    return " ".join(words.replace("\n\n", ", ").split()).split(", ")


BROADER = {name: frozenset(_split(words)) for name, words in _BROADER.items()}
"""Names for what several words have in common: a person says food where a program sees plates and seafood."""
FURTHER = {"people": "portraits", "things": "odds and ends"}
"""What a second group is called that has the same broad name."""
ONE_PERSON = frozenset(_split("a person, a boy, a girl, a man, a woman"))
"""Near whatever shows people: no name for a group by themselves."""
GENERIC = frozenset(_split("food, meals, sports, clothes, people, pets, farm animals, wild animals"))
"""They say nothing beside another word: cats and pets."""

VOCABULARY: tuple[str, ...] = tuple(dict.fromkeys(_split(_WORDS)))
"""Words and short phrases in lower case, but for names."""
